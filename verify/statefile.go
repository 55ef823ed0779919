package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/feedctl/feedctl/internal/regular"
)

// ReadState reads the state of an earlier check from a file. The state is nil if the file does not
// exist or the path is empty.
func ReadState(path string) (*State, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	state := new(State)
	if err := json.Unmarshal(data, state); err != nil {
		return nil, fmt.Errorf("read state %s: %w", path, err)
	}
	return state, nil
}

// WriteState writes the state of a check to a file, unless the path is empty. Do not call it after
// a check that found violations, so that the next check finds them again.
func WriteState(path string, state *State) error {
	if path == "" || state == nil {
		return nil
	}
	data, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return regular.WriteFile(path, append(data, '\n'))
}
