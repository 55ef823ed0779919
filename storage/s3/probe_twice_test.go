package s3_test

import (
	"testing"

	"github.com/feedctl/feedctl/internal/s3fault"
	"github.com/feedctl/feedctl/storage"
)

// TestProbeSentTwice: a proxy sends each write twice, so the server reports that the condition does
// not hold, although the write took effect. The probe must not blame the server.
func TestProbeSentTwice(t *testing.T) {
	bed := newFaultBed(t)
	config := bed.config
	config.Prefix += "/twice"
	store, err := openOver(t.Context(), config, func(r s3fault.Request) s3fault.Fault {
		if r.Operation.Reads() {
			return nil
		}
		return s3fault.Twice()
	})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Create(t.Context(), "a", storage.Meta{}, storage.Bytes([]byte("a"))); err != nil {
		t.Error(err)
	}
}
