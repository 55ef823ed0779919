package s3

import (
	"container/list"
	"crypto/sha256"
	"hash"
	"sync"

	"github.com/feedctl/feedctl/storage"
)

// A tip is the body of an object as it was written or read last, to be appended
// to, and the SHA-256 of it so far.
type tip struct {
	key     string
	version storage.Version
	body    []byte
	sum     hash.Hash
}

func newTip(key string, version storage.Version, body []byte) *tip {
	sum := sha256.New()
	sum.Write(body)
	return &tip{key: key, version: version, body: body, sum: sum}
}

// tips holds the ones that were used lately, up to a number of bytes.
type tips struct {
	limit int64

	mu     sync.Mutex
	bytes  int64
	byKey  map[string]*list.Element // of *tip
	recent list.List                // the front is the latest
}

func newTips(limit int64) *tips { return &tips{limit: limit, byKey: make(map[string]*list.Element)} }

// take removes the tip of key, and returns it if it is at the version. Whoever
// has taken it may write into the room behind its body.
func (t *tips) take(key string, version storage.Version) *tip {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.byKey[key]
	if !ok || e.Value.(*tip).version != version {
		return nil
	}
	return t.remove(e)
}

// put makes it the tip of its key.
func (t *tips) put(n *tip) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.byKey[n.key]; ok {
		t.remove(e)
	}
	if int64(cap(n.body)) > t.limit {
		return
	}
	t.byKey[n.key] = t.recent.PushFront(n)
	t.bytes += int64(cap(n.body))
	for t.bytes > t.limit {
		t.remove(t.recent.Back())
	}
}

// has reports whether there is a tip of key.
func (t *tips) has(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.byKey[key]
	return ok
}

// drop forgets the tip of key.
func (t *tips) drop(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.byKey[key]; ok {
		t.remove(e)
	}
}

// remove takes an element out. The caller holds the lock.
func (t *tips) remove(e *list.Element) *tip {
	n := t.recent.Remove(e).(*tip)
	delete(t.byKey, n.key)
	t.bytes -= int64(cap(n.body))
	return n
}
