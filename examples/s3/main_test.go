package main

import (
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/s3test"
)

func Test(t *testing.T) {
	url := s3test.Start(t).URL("weather")
	const want = `feed: PUT Bern {"temperature":11}
feed: PUT Lima {"temperature":24}
feed: DELETE Bern 
snapshot: Lima {"temperature":24}
`
	for range 2 { // publishing again changes nothing
		var out strings.Builder
		if err := run(t.Context(), &out, url); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("it prints\n%swant\n%s", out.String(), want)
		}
	}
}
