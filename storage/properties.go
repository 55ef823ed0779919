package storage

// As returns the first store in the chain of wrappers that starts at store which
// implements T, such as [Watcher]. A wrapper has a method Unwrap() Store that returns
// the wrapped store; interfaces that the wrapper does not implement are used on the
// wrapped store directly. A wrapper that must not be bypassed has no such method.
func As[T any](store Store) (T, bool) {
	for store != nil {
		if t, ok := store.(T); ok {
			return t, true
		}
		wrapper, ok := store.(interface{ Unwrap() Store })
		if !ok {
			break
		}
		store = wrapper.Unwrap()
	}
	var none T
	return none, false
}

// A Locator is a Store that reports whether it is remote.
type Locator interface {
	// Remote reports whether each operation is a round trip over a network. If so,
	// reading ahead and writing in large pieces pay off.
	Remote() bool
}

// Properties are the optional features of a store, beyond [Store].
type Properties struct {
	Remote   bool // is behind a network; see [Locator]
	Watches  bool // is a [Watcher]
	Clock    bool // is a [Clock]
	Sweeps   bool // is a [Sweeper]
	Syncs    bool // is a [Syncer]
	Presigns bool // is a [Presigner]
	Counts   bool // is a [Counter]
	Probes   bool // is a [Prober]
	Names    bool // is a [Namer]
	Recovers bool // is a [Recoverer]
}

// PropertiesOf returns the properties of a store, whether or not it is wrapped.
func PropertiesOf(store Store) Properties {
	locator, ok := As[Locator](store)
	return Properties{
		Remote:   ok && locator.Remote(),
		Watches:  is[Watcher](store),
		Clock:    is[Clock](store),
		Sweeps:   is[Sweeper](store),
		Syncs:    is[Syncer](store),
		Presigns: is[Presigner](store),
		Counts:   is[Counter](store),
		Probes:   is[Prober](store),
		Names:    is[Namer](store),
		Recovers: is[Recoverer](store),
	}
}

func is[T any](store Store) bool {
	_, ok := As[T](store)
	return ok
}
