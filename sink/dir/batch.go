package dir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/regular"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/internal/content"
	"github.com/feedctl/feedctl/sink/patch"
)

// A batch holds the staged changes until they are committed.
type batch struct {
	stage   string         // directory
	changes map[string]int // file name to number of the staged file; 0: removed
	last    int            // number of the last staged file

	replacing
}

func (t *target) Begin(context.Context) error {
	t.batch = batch{stage: t.stage(t.committed.Batch + 1), changes: map[string]int{}}
	return t.fs.Mkdir(t.batch.stage)
}

func (t *target) Apply(_ context.Context, e *feed.Entity) error {
	key := e.Key()
	if key == "" {
		return sink.ErrNoKey
	}
	name := FileName(key)
	switch e.Operation {
	case feed.Put, "":
		return t.put(name, key, e)
	case feed.Delete:
		t.batch.changes[name] = 0
		return nil
	case feed.Patch:
		if err := t.patch(name, key, e); err != nil {
			return &patch.Error{Key: key, ContentID: e.ContentID, Err: err}
		}
		return nil
	}
	return fmt.Errorf("unknown operation %q", e.Operation)
}

// put stages an entity.
func (t *target) put(name, key string, e *feed.Entity) error {
	body, stream, size, err := t.body.Read(e)
	if err != nil {
		return err
	}
	meta := content.AppendKey([]byte{'{'}, key)
	if meta = append(meta, ','); t.batch.on {
		meta = t.appendReplaced(meta)
	}
	meta = content.AppendFields(meta, e)
	meta = append(meta, '}', '\n')
	return t.add(name, meta, func(file io.Writer) error {
		if stream == nil {
			_, err := file.Write(body)
			return err
		}
		if t.copyBuf == nil {
			t.copyBuf = make([]byte, 256<<10)
		}
		n, err := io.CopyBuffer(struct{ io.Writer }{file}, struct{ io.Reader }{stream}, t.copyBuf)
		if err != nil {
			return fmt.Errorf("copy body, after %d bytes: %w", n, err)
		}
		return content.CheckSize(size, n)
	})
}

// patch stages the current file, changed by a PATCH.
func (t *target) patch(name, key string, e *feed.Entity) error {
	change, stream, _, err := t.body.Read(e)
	if err != nil {
		return err
	}
	if stream != nil {
		return patch.ErrTooLarge
	}
	bodyFile, metaFile := t.file(name), t.metaFile(name)
	if n, ok := t.batch.changes[name]; ok {
		if n == 0 {
			return patch.ErrMissing
		}
		bodyFile, metaFile = staged(t.batch.stage, n)
	}
	document, err := readDocument(bodyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return patch.ErrMissing
	}
	if err != nil {
		return err
	}
	result, err := patch.Apply(document, e.ContentType, change)
	if err != nil {
		return err
	}
	meta, err := patchedMeta(metaFile, key, e)
	if err != nil {
		return err
	}
	return t.add(name, meta, func(file io.Writer) error {
		_, err := file.Write(result)
		return err
	})
}

func readDocument(path string) ([]byte, error) {
	file, err := regular.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	document, err := io.ReadAll(io.LimitReader(file, patch.MaxSize+1))
	if err != nil {
		return nil, err
	}
	if len(document) > patch.MaxSize {
		return nil, patch.ErrTooLarge
	}
	return document, nil
}

// patchedMeta returns the metadata in the file, with the Content-ID and the time
// of e.
func patchedMeta(path, key string, e *feed.Entity) ([]byte, error) {
	data, err := regular.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var old struct {
		ContentType json.RawMessage `json:"contentType"`
		Earlier     json.RawMessage `json:"content_type"` // the name in files of earlier versions
		Headers     json.RawMessage `json:"headers"`
	}
	if err := json.Unmarshal(data, &old); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if old.ContentType == nil {
		old.ContentType = old.Earlier
	}
	meta := content.AppendKey([]byte{'{'}, key)
	meta = content.AppendEvent(append(meta, ','), e)
	meta = append(append(meta, `,"contentType":`...), old.ContentType...)
	meta = append(append(meta, `,"headers":`...), old.Headers...)
	return append(meta, '}', '\n'), nil
}

// add stages a file under a new number, because the file that it replaces may be in use.
func (t *target) add(name string, meta []byte, writeBody func(io.Writer) error) error {
	t.batch.last++
	bodyFile, metaFile := staged(t.batch.stage, t.batch.last)
	if err := t.write(bodyFile, writeBody); err != nil {
		return err
	}
	err := t.write(metaFile, func(w io.Writer) error {
		_, err := w.Write(meta)
		return err
	})
	if err != nil {
		return err
	}
	t.batch.changes[name] = t.batch.last
	return nil
}

func (t *target) write(path string, body func(io.Writer) error) error {
	file, err := t.fs.Open(path, os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	if err := body(file); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

func (t *target) Commit(_ context.Context, at feed.Position) error {
	if err := t.fs.SyncTree(t.batch.stage); err != nil {
		return err
	}
	next := head{Version: 1, Batch: t.committed.Batch + 1, Position: at}
	if t.batch.on && !t.batch.remove {
		next.Replacing = t.batch.since
	}
	if err := t.replaceRecord(next, t.changes()); err != nil {
		return err
	}
	if err := t.finish(next.Batch); err != nil {
		return err
	}
	t.committed = next
	return nil
}

func (t *target) Rollback(context.Context) error { return t.fs.RemoveAll(t.batch.stage) }
