package e2e

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestMaintain kills several servers that maintain the same feed. The first one that lives long enough makes
// the snapshot.
func TestMaintain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := "file:" + filepath.Join(dir, "store")
	publish := &process{t: t, name: "publish", args: []string{"publish", "zones", "--key", "/id", "--store", store}, input: func(w io.Writer) error {
		for n := range 2000 {
			if _, err := fmt.Fprintf(w, "{\"id\":%d}\n", n%1500); err != nil {
				return err
			}
		}
		return nil
	}}
	publish.start()
	<-publish.exited
	feedctl(t, "retain", store+"#zones", "--keep-age", "1h")
	serve := func(n int) *process {
		ready := filepath.Join(dir, fmt.Sprint("url", n))
		_ = os.Remove(ready)
		p := &process{t: t, name: "serve", args: []string{"serve", "--maintain", "--listen", "127.0.0.1:0", "--ready-file", ready, "--store", store}}
		p.start()
		return p
	}
	for range 5 {
		var servers []*process
		for n := range 3 {
			servers = append(servers, serve(n))
		}
		for _, p := range servers {
			for range rand.N(5) { // so that the kill comes at a random point
				feedctl(t, "list", store)
			}
			p.kill(syscall.SIGKILL)
		}
	}
	p := serve(0)
	index := filepath.Join(dir, "store", "objects", "snapshots", "zones", "index", "*@meta")
	waitFor(t, p.stderr.String, func() bool {
		_, err := os.Stat(filepath.Join(dir, "url0"))
		made, _ := filepath.Glob(index)
		return err == nil && len(made) > 0
	})
	p.kill(syscall.SIGTERM)
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit status %d: %s", code, p.stderr)
	}
	feedctl(t, "verify", store+"#zones")
	if got := feedctl(t, "consume", store+"#zones", "--into", "sqlite:"+filepath.Join(dir, "x.db"), "--from", "snapshot"); !strings.HasPrefix(got, "consumed 1,500 entities") {
		t.Errorf("from the snapshot: %s", got)
	}
}
