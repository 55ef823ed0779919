package fold_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/snapshot/fold"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
)

// counted folds the feed with a kept table, checks the snapshot, and returns how many entities of
// the feed were read.
func (w *world) counted(c fold.Config) (read int64) {
	w.t.Helper()
	c.Progress = func(p consumer.Progress) { read = p.Entities }
	want, _ := w.state(consumer.Beginning())
	w.fold(c)
	if diff := cmp.Diff(want, w.snapshotState()); diff != "" {
		w.t.Errorf("snapshot is not the state of the feed (-want +got):\n%s", diff)
	}
	return read
}

func (w *world) fill(from, to int) {
	w.t.Helper()
	for n := from; n < to; n++ {
		e := put(fmt.Sprint("key ", n), fmt.Sprintf(`{"other":"o%d"}`, n))
		e.ContentID = fmt.Sprintf("<%d@test>", n)
		w.publish(e)
	}
}

func TestTableIsKept(t *testing.T) {
	w := newWorld(t)
	c := fold.Config{Table: filepath.Join(t.TempDir(), "new", "table")}
	w.fill(0, 30)
	for _, want := range []int64{30, 0, 5, 0} {
		if want == 5 {
			w.fill(30, 33)
			w.publish(remove("key 3"), put("key 4", "changed"))
		}
		if read := w.counted(c); read != want {
			t.Errorf("%d entities were read, want %d", read, want)
		}
	}
}

// TestTableMismatch: a table that cannot be used is created again.
func TestTableMismatch(t *testing.T) {
	for name, spoil := range map[string]func(w *world, c *fold.Config) *world{
		"other key": func(w *world, c *fold.Config) *world {
			c.KeyPointer = "/other"
			return w
		},
		"other feed of the same name": func(w *world, _ *fold.Config) *world {
			other := newWorld(w.t)
			other.fill(25, 28) // the first feed does not have these
			other.fill(0, 20)  // the last entities are as in the first feed
			return other
		},
		"shorter feed of the same name": func(w *world, _ *fold.Config) *world {
			other := newWorld(w.t)
			other.fill(0, 3)
			return other
		},
		"no database":  overwrite(0, []byte("this is no database, but something else")),
		"damaged rows": overwrite(8192, make([]byte, 1<<20)),
		"emptied":      overwrite(0, nil),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := fold.Config{Table: filepath.Join(t.TempDir(), "table")}
			w.fill(0, 20)
			w.counted(c)
			w = spoil(w, &c)
			if c.KeyPointer != "" {
				index := w.fold(c)
				if state := w.snapshotState(); index.Entities != 20 || state["o7"] == "" {
					t.Errorf("snapshot is %v", state)
				}
				return
			}
			if read := w.counted(c); read == 0 {
				t.Error("nothing was read")
			}
			if read := w.counted(c); read != 0 {
				t.Errorf("then %d entities were read, want none", read)
			}
		})
	}
}

// overwrite writes to the file of the table at an offset, or truncates the file there if data is
// empty.
func overwrite(offset int64, data []byte) func(*world, *fold.Config) *world {
	return func(w *world, c *fold.Config) *world {
		f, err := os.OpenFile(c.Table, os.O_WRONLY, 0)
		if err == nil && data == nil {
			err = f.Truncate(offset)
		} else if err == nil {
			_, err = f.WriteAt(data, offset)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			w.t.Fatal(err)
		}
		return w
	}
}

// TestTableAfterPrune: a table is used if it has the state of the pruned pages; otherwise it is not
// used, even if it has a position.
func TestTableAfterPrune(t *testing.T) {
	w := newWorld(t)
	c := fold.Config{Table: filepath.Join(t.TempDir(), "table")}
	w.fill(0, 50)
	w.counted(c)
	want, _ := w.state(consumer.Beginning())
	if _, err := chain.RaiseFloor(t.Context(), w.store, "things", 4); err != nil {
		t.Fatal(err)
	}
	w.publish(put("new", "new"))
	want["new"] = "new"
	read := int64(0)
	c.Progress = func(p consumer.Progress) { read = p.Entities }
	w.fold(c)
	if diff := cmp.Diff(want, w.snapshotState()); diff != "" || read != 1 {
		t.Errorf("%d entities were read (-want +got):\n%s", read, diff)
	}

	// After an interrupted fold, pages are pruned that the fold may not have read.
	for _, snapshot := range []bool{false, true} {
		w := newWorld(t)
		w.fill(0, 50)
		want, _ := w.state(consumer.Beginning())
		if snapshot {
			w.fold(fold.Config{})
		}
		c.Table = filepath.Join(t.TempDir(), "table")
		ctx, cancel := context.WithCancel(t.Context())
		c.Progress = func(consumer.Progress) { cancel() }
		if _, err := fold.Feed(ctx, w.store, "things", c); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if _, err := chain.RaiseFloor(t.Context(), w.store, "things", 4); err != nil {
			t.Fatal(err)
		}
		c.Progress = nil
		_, err := fold.Feed(t.Context(), w.store, "things", c)
		if !snapshot {
			if !errors.Is(err, fold.ErrPruned) {
				t.Errorf("without a snapshot: %v", err)
			}
			continue
		}
		if diff := cmp.Diff(want, w.snapshotState()); diff != "" || err != nil {
			t.Errorf("with a snapshot: %v (-want +got):\n%s", err, diff)
		}
	}
}

const killed = 25_000 // number of entities, more than two batches

// TestKill kills a fold and resumes it.
func TestKill(t *testing.T) {
	if dir := os.Getenv("FOLD_KILL"); dir != "" {
		foldForEver(t, dir)
		return
	}
	dir := t.TempDir()
	store := openFile(t, dir)
	f, err := producer.Open(t.Context(), store, "things", producer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var entities []*feed.Entity
	for n := range killed {
		entities = append(entities, put(fmt.Sprint("key ", n), "x"))
	}
	if _, err := f.Publish(t.Context(), entities...); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}

	child := exec.Command(os.Args[0], "-test.run=^TestKill$")
	child.Env = append(os.Environ(), "FOLD_KILL="+dir)
	if _, err := child.StdinPipe(); err != nil { // it stays open
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("committed"))); err != nil {
		t.Error(err)
	}
	c := fold.Config{Table: filepath.Join(dir, "table")}
	if _, err := fold.Feed(t.Context(), store, "things", c); !errors.Is(err, sink.ErrLocked) {
		t.Errorf("fold with the table of another process: %v", err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = child.Wait() // it was killed

	var read int64
	c.Progress = func(p consumer.Progress) { read = p.Entities }
	index, err := fold.Feed(t.Context(), store, "things", c)
	if err != nil || index.Entities != killed || read == 0 || read >= killed {
		t.Errorf("%d entities were read of %d: %+v, %v", read, killed, index, err)
	}
}

// foldForEver folds until the first commit of the table, and then waits to be killed.
func foldForEver(t *testing.T, dir string) {
	c := fold.Config{Table: filepath.Join(dir, "table"), Progress: func(consumer.Progress) {
		fmt.Print("committed")
		_, _ = io.Copy(io.Discard, os.Stdin) // no input comes: waits until the process is killed
	}}
	_, err := fold.Feed(t.Context(), openFile(t, dir), "things", c)
	t.Error(err)
}

func openFile(t *testing.T, dir string) storage.Store {
	store, err := file.New(filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// TestLeftover: the next fold removes pages of a snapshot whose writer was killed long ago.
func TestLeftover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.publish(put("a", "a"))
		leave := func(id string) string {
			t.Helper()
			key := layout.SnapshotPage("things", id, 0)
			if _, err := w.store.Create(t.Context(), key, storage.Meta{}, storage.Bytes([]byte("page"))); err != nil {
				t.Fatal(err)
			}
			return key
		}
		old := leave("20200101T000000.000Z-aaaaaaaa")
		time.Sleep(48 * time.Hour) // in fake time
		young := leave("20200101T000000.000Z-bbbbbbbb")
		w.fold(fold.Config{Table: filepath.Join(t.TempDir(), "table")})
		if _, err := w.store.Stat(t.Context(), old); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("the old page: %v, want ErrNotFound", err)
		}
		if _, err := w.store.Stat(t.Context(), young); err != nil {
			t.Errorf("the young page: %v", err)
		}
	})
}
