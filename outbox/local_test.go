package outbox_test

import (
	"log/slog"
	"net/url"

	"github.com/feedctl/feedctl/storage/postgres"
)

// localStore returns a store in the database of the outbox.
func (w *world) localStore() *postgres.Store {
	w.Helper()
	u, err := url.Parse(w.url)
	if err != nil {
		w.Fatal(err)
	}
	store, err := postgres.Connect(w.Context(), u, slog.New(slog.DiscardHandler))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := store.Close(); err != nil {
			w.Error(err)
		}
	})
	return store
}
