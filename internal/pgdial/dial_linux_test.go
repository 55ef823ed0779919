package pgdial_test

import (
	"testing"

	"github.com/feedctl/feedctl/internal/pgdial"
	"github.com/feedctl/feedctl/internal/pgtest"
)

func TestDialer(t *testing.T) {
	pgtest.NoticesVanishedServer(t, pgdial.Dialer(0).DialContext)
}
