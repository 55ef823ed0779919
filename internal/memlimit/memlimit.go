// Package memlimit keeps the memory of a small process small, and lets one with much to
// hold have what it needs.
package memlimit

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Adapt sets the soft memory limit of the Go runtime: to least, in bytes, as long as the
// garbage collector gets along with that. It raises the limit when what is in use leaves too
// little room in it, and lowers it again. A fixed limit below what is in use would have the
// collector run all the time.
//
// Adapt is called once, and not if the environment sets GOMEMLIMIT.
func Adapt(least int64) {
	a := &adapter{least: least, limit: least, samples: []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
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

// watch has the limit adjusted after the next garbage collection, and so on: the
// collector finds that nothing refers to the object, and calls what was left for it.
func (a *adapter) watch() {
	runtime.AddCleanup(&struct{ _ [64]byte }{}, func(a *adapter) {
		a.adjust()
		a.watch()
	}, a)
}

func (a *adapter) adjust() {
	metrics.Read(a.samples)
	value := func(i int) int64 { return int64(a.samples[i].Value.Uint64()) }
	limit := wanted(a.least, value(0), value(1)-value(2)-value(3)-value(4)-value(5))
	// Each change stops the world for a moment.
	if limit > a.limit || limit < a.limit*3/4 {
		a.limit = limit
		debug.SetMemoryLimit(limit)
	}
}

// wanted returns the limit for a heap of which so much is in use, with other memory of the
// runtime beside it, in bytes: there is room for half as much again, and an eighth more, so
// that the limit need not follow each collection.
func wanted(least, live, other int64) int64 {
	need := live + live/2 + other
	if need <= least {
		return least
	}
	return need + need/8
}
