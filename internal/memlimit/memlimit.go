// Package memlimit adapts the soft memory limit of the Go runtime to the memory in use.
package memlimit

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Adapt sets the soft memory limit of the Go runtime to the given minimum, in bytes. It raises the limit while the
// memory in use leaves too little room, and lowers it again afterwards. With a fixed limit below the memory in use,
// the garbage collector would run continuously.
//
// Call Adapt only once, and not at all if the environment sets GOMEMLIMIT.
func Adapt(least int64) {
	a := &adapter{least: least, limit: least, samples: []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/scan/heap:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}}
	debug.SetMemoryLimit(least)
	a.watch()
}

type adapter struct {
	least, limit int64
	samples      []metrics.Sample
}

// watch adjusts the limit after each garbage collection: it registers a callback on an
// unreachable object.
func (a *adapter) watch() {
	runtime.AddCleanup(&struct{ _ [64]byte }{}, func(a *adapter) {
		a.adjust()
		a.watch()
	}, a)
}

func (a *adapter) adjust() {
	metrics.Read(a.samples)
	value := func(i int) int64 { return int64(a.samples[i].Value.Uint64()) }
	limit := wanted(a.least, value(0), value(1), value(2)-value(3)-value(4)-value(5)-value(6))
	// Each change stops the world briefly.
	if limit > a.limit || limit < a.limit*3/4 {
		a.limit = limit
		debug.SetMemoryLimit(limit)
	}
}

// wanted returns the limit, in bytes, for the live heap, the part of it that may have pointers,
// and the other memory of the runtime. Beyond these, the limit leaves room for an eighth of the live heap or for half
// of the part with pointers, whichever is more: the size of that part determines how long a collection takes.
func wanted(least, live, scanned, other int64) int64 {
	return max(least, live+max(live/8, scanned/2)+other)
}
