package main

import (
	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/units"
)

// pageLimits are the flags that say when a feed's page is full.
type pageLimits struct {
	bytes    int64
	entities int
}

// add adds the flags. What note says is added to their help.
func (l *pageLimits) add(flags *pflag.FlagSet, note string) {
	units.SizeVar(flags, &l.bytes, "max-page-bytes", 1<<20, "begin a new page beyond this many `BYTES`"+note)
	flags.IntVar(&l.entities, "max-page-entities", 10000, "begin a new page beyond this `NUMBER` of entities"+note)
}

func (l *pageLimits) check() error {
	switch {
	case l.bytes <= 0:
		return exit.Usagef("--max-page-bytes %d must be positive", l.bytes)
	case l.entities <= 0:
		return exit.Usagef("--max-page-entities %d must be positive", l.entities)
	}
	return nil
}
