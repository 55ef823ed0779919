package lintest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
)

type objectCall struct {
	verb   fault.Verb
	key    string
	at     storage.Version // of Append and Replace
	mark   string          // of writes: the metadata, unique to each write
	bytes  string          // of writes: the body, or the bytes appended to it
	offset int64           // of Get
	length int64           // of Get
}

type objectResult struct {
	outcome outcome
	version storage.Version // of successful calls
	mark    string          // of Get and Stat
	bytes   string          // of Get
	size    int64           // of Get and Stat
}

type outcome string

const (
	done    outcome = "done"
	refused outcome = "refused" // ErrExists, ErrConflict, ErrNotFound, or not in a listing
	unknown outcome = "unknown"
)

// An object is the state of one key. The zero object stands for a key without an object. Versions are opaque, so a
// state is identified by the mark of the write that created it.
type object struct {
	mark, body string
}

func (o object) exists() bool { return o.mark != "" }

// objectModel models the contract of [storage.Store] for one key.
func objectModel(marks map[objectVersion]string) porcupine.Model {
	return porcupine.Model{
		Partition: func(operations []porcupine.Operation) (byKey [][]porcupine.Operation) {
			index := map[string]int{}
			for _, op := range operations {
				key := op.Input.(objectCall).key
				n, ok := index[key]
				if !ok {
					n = len(byKey)
					index[key] = n
					byKey = append(byKey, nil)
				}
				byKey[n] = append(byKey[n], op)
			}
			return byKey
		},
		Init: func() any { return object{} },
		Step: func(state, input, output any) (bool, any) {
			call, result := input.(objectCall), output.(objectResult)
			return state.(object).step(call, marks[objectVersion{call.key, call.at}], result)
		},
		DescribeOperation: func(input, output any) string {
			return fmt.Sprintf("%v: %v", input, output)
		},
	}
}

// step reports whether the result is correct for the call in this state, and returns the
// next state. To append to the object or replace it, its mark must equal the argument at.
func (o object) step(c objectCall, at string, r objectResult) (bool, any) {
	var after object
	allowed := true
	switch c.verb {
	case fault.Create:
		allowed = !o.exists()
		after = object{mark: c.mark, body: c.bytes}
	case fault.Append:
		allowed = o.exists() && o.mark == at
		after = object{mark: c.mark, body: o.body + c.bytes}
	case fault.Replace:
		allowed = o.exists() && o.mark == at
		after = object{mark: c.mark, body: c.bytes}
	case fault.Delete:
	default:
		if r.outcome == refused {
			return !o.exists(), o
		}
		return o.exists() && o.shows(c, r), o
	}
	switch {
	case r.outcome == unknown && !allowed:
		return true, o
	case r.outcome == refused:
		return !allowed, o
	}
	return allowed, after
}

// shows reports whether a read of this state returns the result.
func (o object) shows(c objectCall, r objectResult) bool {
	if c.verb == fault.List {
		return true // not every store lists exact sizes
	}
	if r.size != int64(len(o.body)) || r.mark != o.mark {
		return false
	}
	if c.verb == fault.Stat {
		return true
	}
	part := o.body[min(c.offset, r.size):]
	if c.length >= 0 {
		part = part[:min(c.length, int64(len(part)))]
	}
	return r.bytes == part
}

// An objectVersion is a version and the key of its object, since versions are only compared
// within one object.
type objectVersion struct {
	key     string
	version storage.Version
}

// checkObjects returns an error unless the history satisfies the contract of a store.
func checkObjects(operations []porcupine.Operation) error {
	marks := map[objectVersion]string{}
	for _, op := range operations {
		call, result := op.Input.(objectCall), op.Output.(objectResult)
		if result.version == "" {
			continue
		}
		of, mark := objectVersion{call.key, result.version}, call.mark
		if mark == "" {
			mark = result.mark
		}
		if before, ok := marks[of]; ok && before != mark {
			return fmt.Errorf("version %s of %s identifies two states: %s and %s", of.version, of.key, before, mark)
		}
		marks[of] = mark
	}
	model := objectModel(marks)
	for _, one := range model.Partition(operations) {
		if err := explain(model, one); err != nil {
			return fmt.Errorf("%s: %w", one[0].Input.(objectCall).key, err)
		}
	}
	return nil
}

func (r objectResult) String() string {
	if r.outcome != done {
		return string(r.outcome)
	}
	return fmt.Sprintf("done %s %s %q (%d)", r.version, r.mark, r.bytes, r.size)
}

func (c objectCall) String() string {
	parts := []string{string(c.verb), c.key, string(c.at), c.mark}
	if c.verb == fault.Get {
		parts = append(parts, fmt.Sprintf("%d+%d", c.offset, c.length))
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")
}
