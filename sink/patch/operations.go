package patch

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/feedctl/feedctl/internal/jsonptr"
)

// applyJSON applies a JSON Patch (RFC 6902). It does not use a library because members
// must keep their order and numbers their digits, and because existing libraries differ
// from the RFC where a pointer is empty, names an empty member, or ends in an index such
// as 01.
func applyJSON(document, patch []byte) ([]byte, error) {
	if patch[0] != '[' {
		return nil, fmt.Errorf("%w: it is not an array", ErrInvalid)
	}
	var operations []json.RawMessage
	if err := json.Unmarshal(patch, &operations); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	t := target{root: &value{text: document}, room: MaxSize}
	for i, text := range operations {
		if err := t.apply(text); err != nil {
			return nil, fmt.Errorf("operation %d: %w", i, err)
		}
	}
	return t.root.append(nil), nil
}

// A target is the document that operations are applied to.
type target struct {
	root *value
	room int // bytes that "copy" may still add
}

func (t *target) apply(text json.RawMessage) error {
	op, err := parseOperation(text)
	if err != nil {
		return err
	}
	switch op.name {
	case "add":
		err = t.add(op.path, op.value)
	case "remove":
		_, err = t.remove(op.path)
	case "replace":
		err = t.replace(op.path, op.value)
	case "move":
		err = t.move(op.from, op.path)
	case "copy":
		err = t.copy(op.from, op.path)
	case "test":
		err = t.test(op.path, op.value)
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w", op.name, op.path.Text(), err)
	}
	return nil
}

// find returns the value that a pointer refers to.
func (t *target) find(tokens []string) (*value, error) {
	v := t.root
	for _, token := range tokens {
		var err error
		if v, err = v.child(token); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// parent returns the value that contains the target of a pointer, and the target's name
// in it.
func (t *target) parent(at jsonptr.Pointer) (*value, string, error) {
	tokens := at.Tokens()
	last := len(tokens) - 1
	v, err := t.find(tokens[:last])
	if err != nil {
		return nil, "", err
	}
	return v, tokens[last], v.open()
}

func (t *target) add(at jsonptr.Pointer, v *value) error {
	if len(at.Tokens()) == 0 {
		t.root = v
		return nil
	}
	parent, name, err := t.parent(at)
	if err != nil {
		return err
	}
	switch parent.kind() {
	case '{':
		parent.set(name, v)
		return nil
	case '[':
		i := len(parent.items)
		if name != "-" {
			if i, err = index(name, i+1); err != nil {
				return err
			}
		}
		parent.items = slices.Insert(parent.items, i, v)
		return nil
	}
	return noParent(name)
}

// remove returns the value that was removed.
func (t *target) remove(at jsonptr.Pointer) (*value, error) {
	if len(at.Tokens()) == 0 {
		return nil, fmt.Errorf("%w: the whole document cannot be removed", ErrNoFit)
	}
	parent, name, err := t.parent(at)
	if err != nil {
		return nil, err
	}
	v, err := parent.child(name)
	if err != nil {
		return nil, err
	}
	if parent.kind() == '{' {
		parent.unset(name)
		return v, nil
	}
	i, err := index(name, len(parent.items))
	if err != nil {
		return nil, err
	}
	parent.items = slices.Delete(parent.items, i, i+1)
	return v, nil
}

func (t *target) replace(at jsonptr.Pointer, v *value) error {
	old, err := t.find(at.Tokens())
	if err != nil {
		return err
	}
	*old = *v
	return nil
}

func (t *target) move(from, to jsonptr.Pointer) error {
	if from.Text() == to.Text() {
		_, err := t.find(from.Tokens())
		return err
	}
	if inside := to.Tokens(); len(inside) > len(from.Tokens()) && slices.Equal(inside[:len(from.Tokens())], from.Tokens()) {
		return fmt.Errorf("%w: %q cannot be moved into itself", ErrNoFit, from.Text())
	}
	v, err := t.remove(from)
	if err != nil {
		return err
	}
	return t.add(to, v)
}

func (t *target) copy(from, to jsonptr.Pointer) error {
	v, err := t.find(from.Tokens())
	if err != nil {
		return err
	}
	text := v.append(nil)
	if t.room -= len(text); t.room < 0 {
		return fmt.Errorf("%w after its copy operations", ErrTooLarge)
	}
	return t.add(to, &value{text: text})
}

func (t *target) test(at jsonptr.Pointer, want *value) error {
	v, err := t.find(at.Tokens())
	if err != nil {
		return err
	}
	same, err := equal(v, want)
	if err == nil && !same {
		err = fmt.Errorf("%w: the value is different", ErrNoFit)
	}
	return err
}

// index parses the index of an element (RFC 6901, section 4), which must be below
// the limit.
func index(token string, limit int) (int, error) {
	i, err := strconv.Atoi(token)
	if err != nil || strconv.Itoa(i) != token || i < 0 || i >= limit {
		return 0, fmt.Errorf("%w: no element %q", ErrNoFit, token)
	}
	return i, nil
}

func noParent(name string) error {
	return fmt.Errorf("%w: the parent of %q is neither an object nor an array", ErrNoFit, name)
}

// An operation is one element of a JSON Patch.
type operation struct {
	name       string
	path, from jsonptr.Pointer
	value      *value
}

// parseOperation checks that an operation has the members that it needs (RFC 6902,
// section 4). Other members are ignored.
func parseOperation(text json.RawMessage) (op operation, err error) {
	if text[0] != '{' {
		return op, fmt.Errorf("%w: it is not an object", ErrInvalid)
	}
	given, err := members(text)
	if err != nil {
		return op, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	byName := make(map[string]json.RawMessage, len(given))
	for _, m := range given {
		byName[m.decoded] = m.value
	}
	if err := json.Unmarshal(byName["op"], &op.name); err != nil {
		return op, fmt.Errorf("%w: its \"op\" is not a string", ErrInvalid)
	}
	if op.path, err = pointer(byName, "path"); err != nil {
		return op, err
	}
	switch op.name {
	case "add", "replace", "test":
		if byName["value"] == nil {
			return op, fmt.Errorf("%w: %s without a \"value\"", ErrInvalid, op.name)
		}
		op.value = &value{text: byName["value"]}
	case "move", "copy":
		op.from, err = pointer(byName, "from")
	case "remove":
	default:
		err = fmt.Errorf("%w: unknown \"op\" %q", ErrInvalid, op.name)
	}
	return op, err
}

func pointer(members map[string]json.RawMessage, name string) (jsonptr.Pointer, error) {
	var text *string
	if err := json.Unmarshal(members[name], &text); err != nil || text == nil {
		return jsonptr.Pointer{}, fmt.Errorf("%w: its %q is not a string", ErrInvalid, name)
	}
	p, err := jsonptr.Compile(*text)
	if err != nil {
		return p, fmt.Errorf("%w: its %q: %w", ErrInvalid, name, err)
	}
	return p, nil
}
