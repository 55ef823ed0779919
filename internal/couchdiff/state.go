package couchdiff

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// A State is the state of a database at one moment. It covers each leaf revision, including deleted ones,
// with its members and the types and bytes of its attachments. It can be compared with the state of another
// database, or with a later state of the same database.
type State map[string]string

// Read returns the state of the database at a URL, which may have credentials. The database must not be
// written to in the meantime.
func Read(ctx context.Context, url string) (State, error) {
	d := database{url, &http.Client{Timeout: answerTime}}
	ids, err := d.ids(ctx)
	if err != nil {
		return nil, fmt.Errorf("read database: %w", err)
	}
	state := State{}
	for id := range ids {
		leaves, err := d.leaves(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("read database: %w", err)
		}
		for rev, l := range leaves {
			leaf := fmt.Sprintf("document %q, leaf %s", id, rev)
			for name, value := range l {
				if name != attachmentsMember {
					state[leaf+", member "+name] = text(value)
				}
			}
			for name, a := range l.attachments() {
				bytes, err := d.digest(ctx, id, rev, name)
				if err != nil {
					return nil, fmt.Errorf("read database: %w", err)
				}
				state[leaf+", attachment "+name] = a.contentType + ", " + bytes
			}
		}
	}
	return state, nil
}

// Differences returns the differences between the two states, one line for each.
func (s State) Differences(other State) (all []string) {
	names := maps.Clone(s)
	maps.Copy(names, other)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if s[name] != other[name] && len(all) < maxDifferences {
			all = append(all, fmt.Sprintf("%s: %.200s in the first database, %.200s in the second", name, s[name], other[name]))
		}
	}
	return all
}
