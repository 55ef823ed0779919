package producer_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// emptyDir is an empty stream. When it is read, it checks that a directory has no files.
type emptyDir struct {
	t    *testing.T
	path string
}

func (e emptyDir) Read([]byte) (int, error) {
	if files, err := os.ReadDir(e.path); err != nil || len(files) > 0 {
		e.t.Errorf("a process killed now would leave %v, %v", files, err)
	}
	return 0, io.EOF
}

func TestStream(t *testing.T) {
	store := memory.New()
	spool := t.TempDir()
	f := open(t, store, producer.Config{SpoolDir: spool, MaxEntity: 3 << 20})
	stream := func(r io.Reader, size int64) error {
		_, err := f.Publish(t.Context(), &feed.Entity{Operation: feed.Put, ContentType: "text/plain", Stream: r, Size: size})
		return err
	}
	body := bytes.Repeat([]byte("0123456789abcdef"), 3<<16)
	if err := stream(io.MultiReader(bytes.NewReader(body), emptyDir{t, spool}), int64(len(body))); err != nil {
		t.Fatal(err)
	}
	p := newest(t, store)
	if !p.Closed || p.Entities != 1 || p.Size < int64(len(body)) {
		t.Errorf("page of a streamed entity: %+v", p)
	}
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		r    io.Reader
		size int64
		want error
	}{
		"shorter":   {strings.NewReader("abc"), 4, producer.ErrInvalid},
		"longer":    {strings.NewReader("abc"), 2, producer.ErrInvalid},
		"too large": {io.LimitReader(zeros{}, 4<<20), -1, producer.ErrInvalid},
		"broken":    {io.MultiReader(strings.NewReader("abc"), failing{broken}), -1, broken},
	} {
		if err := stream(test.r, test.size); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := newest(t, store).Number; got != 1 {
		t.Errorf("the newest page is %d after refused streams", got)
	}
	if leftovers, err := os.ReadDir(spool); err != nil || len(leftovers) > 0 {
		t.Errorf("spool directory holds %v, %v", leftovers, err)
	}
}

// TestSlowStream publishes a stream to a slow store. The write takes longer than RetryFor, but
// less than the time allowed for a body of that size.
func TestSlowStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t, slow{memory.New()}, producer.Config{RetryFor: time.Second, SpoolDir: t.TempDir()})
		e := entities(ids(1, 1))[0]
		e.Body, e.Stream, e.Size = nil, io.LimitReader(zeros{}, 2<<20), -1
		if receipt, err := f.Publish(t.Context(), e); err != nil || receipt.Published != 1 {
			t.Errorf("%+v, %v", receipt, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}

// slow is a store that takes one second for each 256 KiB of an object that it creates.
type slow struct{ storage.Store }

func (s slow) Create(ctx context.Context, key string, meta storage.Meta, body storage.Body) (storage.Version, error) {
	select {
	case <-time.After(time.Duration(body.Size()) * time.Second / (256 << 10)):
		return s.Store.Create(ctx, key, meta, body)
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
