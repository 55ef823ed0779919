package bridge

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// TestCauseOfTheEnd: whatever was under way when the context ended, the error names the cause.
func TestCauseOfTheEnd(t *testing.T) {
	enough := errors.New("enough")
	ctx, end := context.WithCancelCause(t.Context())
	end(enough)
	for name, err := range map[string]error{
		"a request":      fmt.Errorf("read document: %w", context.Canceled),
		"the cause":      enough,
		"another reason": errNotEnded,
	} {
		got := new(Bridge).Repeat(ctx, func() error { return err })
		if !errors.Is(got, err) || errors.Is(got, enough) != (err != errNotEnded) {
			t.Errorf("%s: error is %v", name, got)
		}
	}
	if err := new(Bridge).Repeat(ctx, func() error { return nil }); err != nil {
		t.Errorf("a run that succeeded: error is %v", err)
	}
}

var errNotEnded = errors.New("disk is full")
