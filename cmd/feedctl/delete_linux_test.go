package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
)

// openTerminal returns both ends of a pseudoterminal (pty(7)).
func openTerminal(t *testing.T) (keyboard, terminal *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keyboard.Close() })
	if err := unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return keyboard, terminal
}

// TestDeleteAsks: on a terminal, delete describes what it would delete and asks. Only "y"
// and "yes" confirm.
func TestDeleteAsks(t *testing.T) {
	store := "file:" + filepath.Join(t.TempDir(), "store")
	mustRun(t, zones, "publish", store+"#zones", "--key", "/name")
	for _, test := range []struct {
		typed string // "": Ctrl-C
		code  int
		want  string
	}{
		{"\n", exit.Error, "not confirmed, nothing was deleted"},
		{"n\n", exit.Error, "not confirmed, nothing was deleted"},
		{"yess\n", exit.Error, "not confirmed, nothing was deleted"},
		{"\x04", exit.Error, "not confirmed, nothing was deleted"}, // the end of the input
		{"", exit.Interrupted, "interrupted"},
		{" Yes \n", exit.OK, ""},
		{"y\n", exit.NotFound, "it was deleted"}, // before the prompt
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		keyboard, terminal := openTerminal(t)
		asked, ended := make(chan struct{}), make(chan int, 1)
		stderr := &watched{text: "delete feed zones with 1 page (", seen: asked}
		go func() {
			ended <- run(ctx, []string{"delete", store + "#zones"}, app.Streams{In: terminal, Out: io.Discard, Err: stderr, Terminal: true})
		}()
		code := -1
		select {
		case <-asked:
			if test.typed == "" {
				cancel(exit.ErrInterrupted)
			} else if _, err := keyboard.WriteString(test.typed); err != nil {
				t.Fatal(err)
			}
			code = <-ended
		case code = <-ended:
		}
		cancel(nil)
		if code != test.code || !strings.Contains(stderr.last, test.want) {
			t.Errorf("%q: exit status %d: %s", test.typed, code, stderr.last)
		}
		out := mustRun(t, "", "list", store)
		if (code == exit.OK || code == exit.NotFound) == strings.Contains(out, "zones") {
			t.Errorf("after %q the store has %s", test.typed, out)
		}
	}
}
