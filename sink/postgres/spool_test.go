package postgres

import (
	"errors"
	"os"
	"testing"
)

// TestStoppedRows reads rows of a batch after the batch has ended. This happens if the connection
// breaks during COPY: pgx does not wait for the goroutine that reads the rows.
func TestStoppedRows(t *testing.T) {
	s := &spool{}
	s.begin(1)
	s.text("value")
	if err := s.finish(); err != nil {
		t.Fatal(err)
	}
	r := s.rows(true)
	if n, err := r.Read(make([]byte, len(copyHeader)+1)); n != len(copyHeader)+1 || err != nil {
		t.Fatalf("%d bytes and error %v", n, err)
	}
	r.stop()
	if err := s.reset(); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Read(make([]byte, 10)); n != 0 || !errors.Is(err, os.ErrClosed) {
		t.Errorf("%d bytes and error %v", n, err)
	}
}
