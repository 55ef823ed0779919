package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/loopback"
	"github.com/feedctl/feedctl/internal/s3test"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestRestoreBehindNginx restores a store to an older state and publishes to it again,
// behind nginx's proxy_cache: with the server restarted or not, and the cache purged or
// not. Each consumer must receive the current contents of the feed, or end with exit status
// 4. If the server was restarted and then the cache purged, verify must find nothing; if a
// consumer was stopped by an old page, verify must find that page.
func TestRestoreBehindNginx(t *testing.T) {
	t.Parallel()
	t.Run("file", func(t *testing.T) {
		dir := t.TempDir()
		store, err := file.New(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		restoreBehindNginx(t, store, "file:"+dir)
	})
	t.Run("S3 with a cache", func(t *testing.T) {
		at := s3test.Start(t).URL("restore")
		restoreBehindNginx(t, bucketStore(t, at), at, "--cache", t.TempDir())
	})
}

func restoreBehindNginx(t *testing.T, store storage.Store, at string, flags ...string) {
	address, dir := freeAddress(t), t.TempDir()
	proxy := &nginx{t: t, address: address, dir: dir}
	urlFile := filepath.Join(dir, "url")
	serve := &process{t: t, name: "serve", args: append([]string{"serve", "--store", at, "--listen", freeAddress(t),
		"--public-url", "http://" + address, "--ready-file", urlFile}, flags...)}
	start := func() {
		_ = os.Remove(urlFile)
		serve.start()
		waitFor(t, serve.stderr.String, func() bool { _, err := os.Stat(urlFile); return err == nil })
	}
	start()
	defer func() { serve.kill(syscall.SIGTERM) }()
	proxy.upstream = serve.args[4]
	proxy.start()
	defer func() { proxy.stop() }()
	url := "http://" + address + "/feeds/f"
	for round, c := range []struct{ restarted, purged bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		name := fmt.Sprintf("restarted %t, purged %t", c.restarted, c.purged)
		sink := func(name string) string { return filepath.Join(dir, fmt.Sprintf("%s-%d.jsonl", name, round)) }
		copied, empty := memory.New(), memory.New()
		// Each round has its own feed, since the cache has the pages of all rounds.
		feedName := fmt.Sprintf("f%d", round)
		url := url + fmt.Sprint(round)
		publishEvents(t, store, feedName, 0, 25)
		copyStore(t, copied, store, empty)
		publishEvents(t, store, feedName, 25, 15)
		if _, code := run(t, "consume", url, "--into", "jsonl:"+sink("middle")); code != 0 {
			t.Fatalf("%s: consume before the restore: status %d", name, code)
		}
		publishEvents(t, store, feedName, 40, 40)
		for _, warm := range []string{"end", "warm"} {
			if _, code := run(t, "consume", url, "--into", "jsonl:"+sink(warm)); code != 0 {
				t.Fatalf("%s: consume before the restore: status %d", name, code)
			}
		}
		if c.restarted {
			serve.kill(syscall.SIGTERM)
		}
		copyStore(t, store, copied, store)
		publishEvents(t, store, feedName, 1000, 80)
		if c.restarted {
			start()
		}
		if c.purged {
			proxy.stop()
			proxy.purge()
			proxy.start()
		}
		var want []string
		for n := range 25 {
			want = append(want, eventID(n))
		}
		for n := range 80 {
			want = append(want, eventID(1000+n))
		}
		mixed := false
		for _, consumer := range []string{"middle", "end", "fresh"} {
			text, code := run(t, "consume", url, "--into", "jsonl:"+sink(consumer))
			switch {
			case code == 0:
				if got := readLines(t, sink(consumer)); !slices.Equal(got, want) {
					t.Errorf("%s: %s has %d entities of two timelines: %v", name, consumer, len(got), got)
				}
			case code != 4 || !strings.Contains(text, "two timelines") && !strings.Contains(text, "is not in the feed"):
				t.Errorf("%s: %s: status %d: %s", name, consumer, code, text)
			case c.purged && c.restarted && consumer == "fresh":
				t.Errorf("%s: %s: %s", name, consumer, text)
			}
			mixed = mixed || strings.Contains(text, "two timelines")
		}
		text, code := run(t, "verify", url)
		if c.purged && c.restarted && code != 0 || mixed && (code != 5 || !strings.Contains(text, "timeline")) {
			t.Errorf("%s: verify: status %d: %s", name, code, text)
		}
		if !c.purged && !mixed {
			t.Errorf("%s: no consumer received a page from the cache", name)
		}
	}
}

// run runs a command and returns its output and exit status.
func run(t *testing.T, args ...string) (text string, code int) {
	t.Helper()
	out, err := exec.Command(binary, args...).CombinedOutput()
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) {
		t.Fatal(err)
	}
	if status != nil {
		code = status.ExitCode()
	}
	return string(out), code
}

func eventID(n int) string { return fmt.Sprintf("event-%d", n) }

// publishEvents publishes n entities, in pages of ten.
func publishEvents(t *testing.T, store storage.Store, name string, from, n int) {
	t.Helper()
	f, err := producer.Open(t.Context(), store, name, producer.Config{MaxPageEntities: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	batch := make([]*producer.Entity, n)
	for i := range batch {
		id := eventID(from + i)
		batch[i] = &producer.Entity{ContentID: id, Operation: feed.Put, ContentType: "application/json",
			ContentLocation: id, Body: fmt.Appendf(nil, `{"id":%q}`, id)}
	}
	if _, err := f.Publish(t.Context(), batch...); err != nil {
		t.Fatal(err)
	}
}

// copyStore copies all feeds of one store to another. Before that, it deletes all feeds of old,
// which may be the target.
func copyStore(t *testing.T, to, from, old storage.Store) {
	t.Helper()
	ctx := context.Background()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for entry, err := range old.List(ctx, "feeds/", "") {
		check(err)
		check(old.Delete(ctx, entry.Key))
	}
	for entry, err := range from.List(ctx, "feeds/", "") {
		check(err)
		object, err := from.Get(ctx, entry.Key, 0, -1)
		check(err)
		body, err := io.ReadAll(object.Body)
		check(errors.Join(err, object.Body.Close()))
		_, err = to.Create(ctx, entry.Key, object.Meta, storage.Bytes(body))
		check(err)
	}
}

// freeAddress returns an address of this machine to listen on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", loopback.Host()+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// An nginx is a proxy with a cache.
type nginx struct {
	t                      *testing.T
	address, upstream, dir string
	cmd                    *exec.Cmd
	stderr                 bytes.Buffer
}

const nginxConfig = `
daemon off; master_process off;
pid %[1]s/nginx.pid;
error_log %[1]s/error.log;
events { worker_connections 64; }
http {
	access_log off;
	client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
	proxy_cache_path %[1]s/cache keys_zone=pages:1m;
	server {
		listen %[2]s;
		location / { proxy_pass http://%[3]s; proxy_cache pages; }
	}
}
`

func (n *nginx) start() {
	n.t.Helper()
	config := filepath.Join(n.dir, "nginx.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, nginxConfig, n.dir, n.address, n.upstream), 0o600); err != nil {
		n.t.Fatal(err)
	}
	path := "nginx"
	if _, err := os.Stat("/usr/sbin/nginx"); err == nil {
		path = "/usr/sbin/nginx" // Debian's location, which may not be in PATH
	}
	n.cmd = exec.Command(path, "-c", config, "-e", filepath.Join(n.dir, "error.log"))
	n.cmd.Stderr = &n.stderr
	if err := n.cmd.Start(); err != nil {
		n.t.Fatalf("start nginx (Debian: nginx-light): %v", err)
	}
	waitFor(n.t, func() string { return "nginx does not respond" }, func() bool {
		response, err := http.Get("http://" + n.address + "/healthz")
		if err != nil {
			return false
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusOK
	})
}

func (n *nginx) stop() {
	_ = n.cmd.Process.Signal(syscall.SIGTERM)
	_ = n.cmd.Wait()
}

func (n *nginx) purge() {
	if err := os.RemoveAll(filepath.Join(n.dir, "cache")); err != nil {
		n.t.Fatal(err)
	}
}
