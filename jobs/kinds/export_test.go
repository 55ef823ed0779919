package kinds

import (
	"context"

	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/stores"
)

// On returns all kinds. Their runs use the store that open returns, whatever URL a job names.
func On(open func() storage.Store) jobs.Kinds {
	all, shared := jobs.Kinds{}, &task.Shared{OpenStore: func(context.Context, string, stores.Options) (storage.Store, error) { return open(), nil }}
	for name, k := range known {
		k.shared = shared
		all[name] = &k
	}
	return all
}
