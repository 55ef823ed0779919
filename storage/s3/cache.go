package s3

import (
	"container/list"
	"crypto/sha256"
	"hash"
	"sync"

	"github.com/feedctl/feedctl/storage"
)

// A cachedBody holds the body of an object as it was last written or read, and the state of its
// SHA-256, for the next append.
type cachedBody struct {
	key     string
	version storage.Version
	body    []byte
	sum     hash.Hash
}

func newCachedBody(key string, version storage.Version, body []byte) *cachedBody {
	sum := sha256.New()
	sum.Write(body)
	return &cachedBody{key: key, version: version, body: body, sum: sum}
}

// A bodyCache is an LRU cache of bodies, of limited size.
type bodyCache struct {
	limit int64

	mu     sync.Mutex
	bytes  int64
	byKey  map[string]*list.Element // of *cachedBody
	recent list.List                // most recently used first
}

func newBodyCache(limit int64) *bodyCache {
	return &bodyCache{limit: limit, byKey: make(map[string]*list.Element)}
}

// take removes the body of key from the cache and returns it, if it has the given version. The
// caller may use the spare capacity of the body.
func (c *bodyCache) take(key string, version storage.Version) *cachedBody {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok || e.Value.(*cachedBody).version != version {
		return nil
	}
	return c.remove(e)
}

// put adds a body, which replaces any other body with the same key.
func (c *bodyCache) put(n *cachedBody) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[n.key]; ok {
		c.remove(e)
	}
	if int64(cap(n.body)) > c.limit {
		return
	}
	c.byKey[n.key] = c.recent.PushFront(n)
	c.bytes += int64(cap(n.body))
	for c.bytes > c.limit {
		c.remove(c.recent.Back())
	}
}

func (c *bodyCache) has(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.byKey[key]
	return ok
}

func (c *bodyCache) drop(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[key]; ok {
		c.remove(e)
	}
}

// remove removes an element. The caller must hold mu.
func (c *bodyCache) remove(e *list.Element) *cachedBody {
	n := c.recent.Remove(e).(*cachedBody)
	delete(c.byKey, n.key)
	c.bytes -= int64(cap(n.body))
	return n
}
