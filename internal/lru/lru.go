// Package lru implements a cache with least-recently-used eviction.
package lru

import (
	"container/list"
	"sync"
)

// A Cache holds the most recently used values, up to a total weight. Its methods may be
// called concurrently.
type Cache[K comparable, V any] struct {
	limit int

	mu     sync.Mutex
	weight int
	order  list.List // of *entry[K, V], most recently used first
	byKey  map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key    K
	value  V
	weight int
}

// New returns a cache of values with a total weight of at most limit.
func New[K comparable, V any](limit int) *Cache[K, V] {
	return &Cache[K, V]{limit: limit, byKey: make(map[K]*list.Element)}
}

// Get returns the value for a key.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.byKey[key]
	if !ok {
		return value, false
	}
	c.order.MoveToFront(element)
	return element.Value.(*entry[K, V]).value, true
}

// Add adds value unless there already is one for the key, and returns the value in the
// cache. A value heavier than the limit is returned but not added.
func (c *Cache[K, V]) Add(key K, value V, weight int) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.byKey[key]; ok {
		c.order.MoveToFront(element)
		return element.Value.(*entry[K, V]).value
	}
	if weight > c.limit {
		return value
	}
	c.byKey[key] = c.order.PushFront(&entry[K, V]{key, value, weight})
	c.weight += weight
	for c.weight > c.limit {
		oldest := c.order.Remove(c.order.Back()).(*entry[K, V])
		delete(c.byKey, oldest.key)
		c.weight -= oldest.weight
	}
	return value
}

// Remove removes the value for a key, provided that the function returns true for the value.
func (c *Cache[K, V]) Remove(key K, is func(V) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.byKey[key]
	if !ok || !is(element.Value.(*entry[K, V]).value) {
		return
	}
	c.weight -= c.order.Remove(element).(*entry[K, V]).weight
	delete(c.byKey, key)
}
