package main

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	all := sections()
	for list, want := range map[string]int{"": len(all), "codec": 1, "codec,s3": 2, "typo": -1, "codec,typo": -1} {
		chosen, err := choose(all, list)
		if (err != nil) != (want < 0) || err == nil && len(chosen) != want {
			t.Errorf("%q: %d sections, %v", list, len(chosen), err)
		}
	}
}

func TestExplain(t *testing.T) {
	err := error(&exec.ExitError{Stderr: []byte("no space\n")})
	if got := explain(errors.Join(err)).Error(); !strings.HasSuffix(got, ": no space") {
		t.Error(got)
	}
}
