package erase

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/jsonptr"
)

// keys holds the keys whose entities are erased.
type keys struct {
	names   map[string]string // for each key, the one that replaces it: the same unless forget is set
	pointer *jsonptr.Pointer
	forget  bool
}

func newKeys(c Config) (*keys, error) {
	k := &keys{names: make(map[string]string, len(c.Keys)), forget: c.ForgetKeys}
	for _, key := range c.Keys {
		if key == "" {
			return nil, errors.New("a key is empty")
		}
		k.names[key] = key
		if c.ForgetKeys {
			k.names[key] = "erased-" + strings.ToLower(rand.Text())
		}
	}
	if len(k.names) == 0 {
		return nil, errors.New("there is no key")
	}
	if c.KeyPointer != "" {
		p, err := jsonptr.Compile(c.KeyPointer)
		if err != nil {
			return nil, err
		}
		k.pointer = &p
	}
	return k, nil
}

// of returns the key of an entity, as a consumer with the same pointer determines it, and reports
// whether it is in k.
func (k *keys) of(e *feed.Entity) (string, bool, error) {
	key := e.Key()
	if k.pointer != nil && !(isEmpty(e) && e.ContentLocation != "") {
		if e.Stream != nil {
			return "", false, fmt.Errorf("take key %q from the body of %s: it is too large", k.pointer.Text(), e.ContentID)
		}
		var err error
		if key, err = k.pointer.String(e.Body); err != nil {
			return "", false, fmt.Errorf("take key %q from the body of %s: %w", k.pointer.Text(), e.ContentID, err)
		}
	}
	_, ok := k.names[key]
	return key, ok, nil
}

// erased returns the entity that replaces an entity of a key, and reports whether the two differ.
func (k *keys) erased(e *feed.Entity, key string) (*feed.Entity, bool) {
	location := e.ContentLocation // as the publisher spelled it, which may differ from EncodeKey
	if k.forget || k.pointer != nil {
		location = feed.EncodeKey(k.names[key])
	}
	same := e.Operation == feed.Delete && isEmpty(e) && len(e.Header) == 0 && e.ContentLocation == location
	return &feed.Entity{ContentID: e.ContentID, Operation: feed.Delete, LastModified: e.LastModified, ContentLocation: location}, !same
}

func isEmpty(e *feed.Entity) bool { return e.Stream == nil && len(e.Body) == 0 }
