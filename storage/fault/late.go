package fault

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/feedctl/feedctl/storage"
)

// A Late is the [Outcome] of one write that returns an error at once but is performed
// when Release is called, like a request that is in transit when its sender gives up.
type Late struct {
	mu   sync.Mutex
	op   Op
	land func(context.Context) error // performs the write; nil before hold and after Release
	used bool
}

func (*Late) outcome() {}

// hold holds the write until it is released.
func (l *Late) hold(op Op, land func(context.Context) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.used {
		panic(fmt.Sprintf("fault: Late of %v is used again for %v", l.op, op))
	}
	l.op, l.land, l.used = op, land, true
}

// Op returns the held write.
func (l *Late) Op() Op {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.op
}

// Release performs the held write and returns its error. Further calls do nothing.
func (l *Late) Release(ctx context.Context) error {
	l.mu.Lock()
	land := l.land
	l.land = nil
	l.mu.Unlock()
	if land == nil {
		return nil
	}
	return land(ctx)
}

// keep copies the metadata and the body, since the caller may change them after the write has
// returned.
func keep(meta storage.Meta, body storage.Body) (storage.Meta, storage.Body, error) {
	meta.Data = bytes.Clone(meta.Data)
	r, err := storage.OpenExact(body)
	if err != nil {
		return meta, nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return meta, storage.Bytes(data), err
}
