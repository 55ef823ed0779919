package patch

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// applyMerge is MergePatch of RFC 7396, section 2. It does not use a library because
// the result must be deterministic, with members in order, and because nulls within
// arrays are values, not removals.
func applyMerge(document, patch []byte) ([]byte, error) {
	if patch[0] != '{' {
		return patch, nil
	}
	var target []member
	if document != nil && document[0] == '{' {
		var err error
		if target, err = members(document); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoFit, err)
		}
	}
	changes, err := members(patch)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	index := make(map[string]int, len(target))
	for i, m := range target {
		index[m.decoded] = i
	}
	for _, change := range changes {
		i, found := index[change.decoded]
		if string(change.value) == "null" {
			if found {
				target[i].value = nil // removed
			}
			continue
		}
		if !found {
			i = len(target)
			index[change.decoded] = i
			target = append(target, member{name: change.name, decoded: change.decoded})
		}
		if target[i].value, err = applyMerge(target[i].value, change.value); err != nil {
			return nil, err
		}
	}
	return join(target), nil
}

// A member is a member of an object. If value is nil, the member does not exist.
type member struct {
	name    json.RawMessage // with its quotes and escapes
	decoded string
	value   json.RawMessage
}

// members returns the members of a JSON object without white space, in order. If a name occurs more than
// once, its last value is used, in the position of the first.
func members(object []byte) ([]member, error) {
	var all []member
	index := map[string]int{}
	decoder := json.NewDecoder(bytes.NewReader(object))
	if _, err := decoder.Token(); err != nil { // the brace
		return nil, err
	}
	for decoder.More() {
		before := decoder.InputOffset()
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		name := bytes.TrimLeft(object[before:decoder.InputOffset()], ",")
		m := member{name: name, decoded: token.(string)}
		if err := decoder.Decode(&m.value); err != nil {
			return nil, err
		}
		if i, found := index[m.decoded]; found {
			all[i].value = m.value
			continue
		}
		index[m.decoded] = len(all)
		all = append(all, m)
	}
	return all, nil
}

func join(all []member) []byte {
	object := []byte{'{'}
	for _, m := range all {
		if m.value == nil {
			continue
		}
		if len(object) > 1 {
			object = append(object, ',')
		}
		object = append(object, m.name...)
		object = append(object, ':')
		object = append(object, m.value...)
	}
	return append(object, '}')
}
