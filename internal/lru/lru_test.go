package lru

import "testing"

func TestCache(t *testing.T) {
	c := New[string, int](10)
	c.Add("a", 1, 4)
	c.Add("b", 2, 4)
	if kept := c.Add("a", 3, 4); kept != 1 {
		t.Errorf("Add of an existing key returns %d", kept)
	}
	c.Add("c", 3, 4) // removes "b", which was used before "a"
	if c.Add("huge", 4, 11) != 4 {
		t.Error("Add of a value heavier than the limit does not return it")
	}
	for key, want := range map[string]bool{"a": true, "b": false, "c": true, "huge": false} {
		if _, ok := c.Get(key); ok != want {
			t.Errorf("%s is cached: %v", key, ok)
		}
	}
}
