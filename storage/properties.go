package storage

// As returns the first of store, the store that it wraps, and so on, that is a T, such
// as a [Watcher]. A wrapper has a method Unwrap() Store that returns the store below
// it; what it does not implement itself, the store below does, past the wrapper. One
// that must not be bypassed has no such method.
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

// A Locator is a Store that says where it is.
type Locator interface {
	// Remote reports whether an operation is a round trip over a network, so that it
	// pays to read ahead of a reader and to write in large pieces.
	Remote() bool
}

// Properties say where a store is and what it can do beside the contract of [Store].
type Properties struct {
	Remote   bool // it is behind a network; see [Locator]
	Watches  bool // it is a [Watcher]
	Clock    bool // it is a [Clock]
	Sweeps   bool // it is a [Sweeper]
	Syncs    bool // it is a [Syncer]
	Presigns bool // it is a [Presigner]
	Counts   bool // it is a [Counter]
	Probes   bool // it is a [Prober]
	Names    bool // it is a [Namer]
	Salvages bool // it is a [Salvager]
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
		Salvages: is[Salvager](store),
	}
}

func is[T any](store Store) bool {
	_, ok := As[T](store)
	return ok
}
