package server

import (
	"container/list"
	"sync"
)

// An lru is a cache that holds what was used last, up to a total weight.
type lru[K comparable, V any] struct {
	limit int

	mu     sync.Mutex
	weight int
	order  list.List // of *lruEntry[K, V], the last used first
	byKey  map[K]*list.Element
}

type lruEntry[K comparable, V any] struct {
	key    K
	value  V
	weight int
}

func newLRU[K comparable, V any](limit int) *lru[K, V] {
	return &lru[K, V]{limit: limit, byKey: make(map[K]*list.Element)}
}

func (c *lru[K, V]) get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.byKey[key]
	if !ok {
		return value, false
	}
	c.order.MoveToFront(element)
	return element.Value.(*lruEntry[K, V]).value, true
}

// add keeps value unless there is one for the key already, and returns the one
// that is kept. Something heavier than the limit is not kept.
func (c *lru[K, V]) add(key K, value V, weight int) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.byKey[key]; ok {
		c.order.MoveToFront(element)
		return element.Value.(*lruEntry[K, V]).value
	}
	c.byKey[key] = c.order.PushFront(&lruEntry[K, V]{key, value, weight})
	c.weight += weight
	for c.weight > c.limit {
		oldest := c.order.Remove(c.order.Back()).(*lruEntry[K, V])
		delete(c.byKey, oldest.key)
		c.weight -= oldest.weight
	}
	return value
}

// remove removes a value, if it is the one.
func (c *lru[K, V]) remove(key K, is func(V) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.byKey[key]
	if !ok || !is(element.Value.(*lruEntry[K, V]).value) {
		return
	}
	c.weight -= c.order.Remove(element).(*lruEntry[K, V]).weight
	delete(c.byKey, key)
}
