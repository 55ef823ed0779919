package s3

import "sync"

// memoryUnit is the size, in bytes, of which the capacity of memory for objects is a multiple.
const memoryUnit = 64 << 10

// A memory is a pool of memory for objects, which can be reused without being cleared by the
// garbage collector. The zero value is ready to use. Store.buffers limits how much memory is in use
// at a time.
type memory struct {
	mu   sync.Mutex
	free map[int64]*sync.Pool // of *[]byte, by the number of units
}

// get returns memory of the given length, whose content is arbitrary.
func (m *memory) get(size int64) []byte {
	units := (size + memoryUnit - 1) / memoryUnit
	if used, ok := m.pool(units).Get().(*[]byte); ok {
		return (*used)[:size]
	}
	return make([]byte, size, units*memoryUnit)
}

// A borrowed holds memory for an object.
type borrowed struct {
	bytes   []byte
	unlimit func() // no longer counts the memory toward the limit
	free    func() // gives the memory back; bytes must not be used after that
}

// borrow returns memory of the given length. The caller must have acquired the length from
// Store.buffers.
func (s *Store) borrow(size int64) *borrowed {
	b := &borrowed{bytes: s.memory.get(size), unlimit: sync.OnceFunc(func() { s.buffers.Release(size) })}
	b.free = sync.OnceFunc(func() {
		b.unlimit()
		s.memory.put(b.bytes)
	})
	return b
}

// put takes back memory that get has returned.
func (m *memory) put(b []byte) { m.pool(int64(cap(b)) / memoryUnit).Put(&b) }

func (m *memory) pool(units int64) *sync.Pool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.free == nil {
		m.free = make(map[int64]*sync.Pool)
	}
	p := m.free[units]
	if p == nil {
		p = new(sync.Pool)
		m.free[units] = p
	}
	return p
}
