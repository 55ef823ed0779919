package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/outbox"
)

// TestOutboxHints: errors that need intervention name the remedy, and have their own exit status.
func TestOutboxHints(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
		hint string
	}{
		{outbox.ErrForeign, exit.Error, "--adopt"},
		{outbox.ErrDestination, exit.Usage, "--store"},
		{outbox.ErrDestination, exit.Usage, "--adopt"},
		{outbox.ErrNotCaptured, exit.NotFound, "outbox status"},
		{outbox.ErrSetup, exit.Error, ""},
	} {
		// As returned by a command.
		err := task.HintOutbox(fmt.Errorf("feed %q: %w", "orders", c.err))
		if got := exit.Status(err); got != c.code {
			t.Errorf("%v: exit status %d, want %d", err, got, c.code)
		}
		if got := exit.Hint(err); !strings.Contains(got, c.hint) || (got == "") != (c.hint == "") {
			t.Errorf("%v: hint %q, want %q in it", err, got, c.hint)
		}
	}
}

// TestInvalidDatabases: errors in a URL are usage errors, and do not show the password.
func TestInvalidDatabases(t *testing.T) {
	for url, want := range map[string]string{
		"shop.db":                                    "postgres://USER@HOST/DATABASE",
		"mysql://ann:secret@h/d":                     "postgres://USER@HOST/DATABASE",
		"mysql://ann@h/d?password=secret":            "postgres://USER@HOST/DATABASE",
		"postgres://ann:secret/x@h/d":                "not a URL",
		"postgres://ann:sec%zzret@h/d":               "not a URL",
		"postgres://ann:secret@h:99999/d":            "invalid port",
		"postgres://ann:secret@h/d?schema=":          "invalid schema",
		"postgres://ann:secret@h/d?sslmode=x":        "sslmode",
		"postgres://ann:secret@h/d?pool_max_conns=x": "pool_max_conns",
	} {
		for _, args := range [][]string{
			{"outbox", "status", "--db", url},
			{"outbox", "run", "--all", "--db", url},
			{"outbox", "attach", "--table", "t", "--feed", "f", "--db", url},
			{"serve", "--store", url},
		} {
			code, _, stderr := feedctl(t, "", args...)
			if code != exit.Usage || !strings.Contains(stderr, want) || strings.Contains(stderr, "secret") || strings.Contains(stderr, "ret@") {
				t.Errorf("%q: exit status %d, want %d and %q\n%s", args, code, exit.Usage, want, stderr)
			}
		}
	}
}
