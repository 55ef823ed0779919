package memory_test

import (
	"testing"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
	"github.com/feedctl/feedctl/storage/storagetest"
)

func TestStore(t *testing.T) {
	storagetest.Run(t, func(*testing.T) storage.Store { return memory.New() }, storagetest.Options{
		BodiesInMemory: true,
		Watcher:        true,
		Clock:          true,
	})
}
