package outbox_test

import (
	"strings"
	"testing"

	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/storage"
)

// TestClientEncoding: the text of a key does not depend on the encoding of the session.
func TestClientEncoding(t *testing.T) {
	t.Parallel()
	places(t, func(t *testing.T, w *world, c outbox.Config, store storage.Store) {
		w.publish("ü")
		w.exec(`SELECT feedctl.publish('things', 'ü', 'PUT', 'b'::text, headers => '{"X-Y":"ü"}')`)
		name := get[string](w, "SELECT current_database()")
		w.exec("ALTER DATABASE " + name + " SET client_encoding = 'LATIN1'")
		defer w.exec("ALTER DATABASE " + name + " RESET ALL")
		db, err := outbox.Create(t.Context(), w.url)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		c.Feed = testFeed
		if _, err := drain(t.Context(), db, c); err != nil {
			t.Fatal(err)
		}
		for _, e := range entities(t, store) {
			text := e.Key()
			for _, h := range e.Header {
				text += h.Value
			}
			if !strings.HasSuffix(text, "ü") {
				t.Errorf("key and headers are %q", text)
			}
		}
	})
}
