package storagetest_test

import (
	"testing"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
	"github.com/feedctl/feedctl/storage/storagetest"
)

// This is a test in the package of a driver.
func ExampleRun() {
	TestStore := func(t *testing.T) {
		storagetest.Run(t, func(*testing.T) storage.Store { return memory.New() }, storagetest.Options{
			BodiesInMemory: true,
			Properties:     storage.Properties{Watches: true, Clock: true, Names: true},
		})
	}
	_ = TestStore // go test calls it
}
