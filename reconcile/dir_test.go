package reconcile_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/reconcile"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/dir"
)

// TestDir: a directory, whose files are in no order, is compared and repaired.
func TestDir(t *testing.T) {
	w := newWorld(t)
	w.publish(1500)
	w.send(w.put("\x00\xff odd/ä", "{}"), w.put(".dot", "{}"))
	path := filepath.Join(t.TempDir(), "out")
	s, err := dir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	job := consumer.Job{Client: w.client, URL: w.url, Sink: s}
	if _, err := job.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	d, _ := w.digest()
	c := w.config(d)
	c.Open = func(ctx context.Context) (reconcile.Contents, error) {
		return dir.OpenContents(ctx, sink.Spec{Scheme: "dir", Path: path})
	}
	got := lines(&c)
	run := func(want ...string) *reconcile.Report {
		t.Helper()
		*got = nil
		report, err := reconcile.Run(t.Context(), c)
		if err != nil || !slices.Equal(*got, want) {
			t.Fatalf("found %q, %v, want %q", *got, err, want)
		}
		return report
	}
	if report := run(); report.Rows != 1502 || report.Equal != 1502 {
		t.Errorf("%+v", report)
	}
	file := func(key string) string { return filepath.Join(path, dir.FileName(key)) }
	for _, err := range []error{
		os.WriteFile(file(key(3)), []byte("by hand"), 0o600),
		os.Remove(file(key(5))),
		os.WriteFile(file("zzz"), []byte("by hand"), 0o600),
		os.WriteFile(filepath.Join(path, "not%a%key"), []byte("by hand"), 0o600),
		os.Mkdir(filepath.Join(path, "subdirectory"), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"* " + key(3), "+ " + key(5), "- zzz"}
	run(want...)
	c.Sink = s
	if report := run(want...); report.Remaining() != 0 {
		t.Errorf("%+v", report.Repair)
	}
	run()
	c.Sink = &meddler{s, func() {
		if err := os.WriteFile(file(key(9)), []byte("again"), 0o600); err != nil {
			t.Fatal(err)
		}
	}}
	if err := os.WriteFile(file(key(9)), []byte("by hand"), 0o600); err != nil {
		t.Fatal(err)
	}
	run("* "+key(9), "! "+key(9))
}

// TestDirBusy: what a consumer writes while the files are being read is noticed.
func TestDirBusy(t *testing.T) {
	w := newWorld(t)
	w.publish(20)
	path := filepath.Join(t.TempDir(), "out")
	s, err := dir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	job := consumer.Job{Client: w.client, URL: w.url, Sink: s}
	if _, err := job.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	contents, err := dir.OpenContents(t.Context(), sink.Spec{Scheme: "dir", Path: path})
	if err != nil {
		t.Fatal(err)
	}
	w.publish(1)
	if _, err := job.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = nil
	for _, e := range contents.Rows(t.Context(), "", "") {
		err = e
	}
	if err == nil {
		t.Error("files of two batches were read without an error")
	}
}
