package main

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/internal/app"
)

// TestFlagUnits: every flag for a size or a duration accepts units.
func TestFlagUnits(t *testing.T) {
	walk(newRoot(app.New(app.Streams{})), func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			value, _ := pflag.UnquoteUsage(f)
			if value == "BYTES" && f.Value.Type() != "size" || f.Value.Type() == "int64" && value != "NUMBER" ||
				(value == "DURATION" || value == "TIME") && f.Value.Type() != "duration" {
				t.Errorf("%s --%s %s is a %s", c.CommandPath(), f.Name, value, f.Value.Type())
			}
		})
	})
}
