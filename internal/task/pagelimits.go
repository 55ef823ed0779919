package task

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/units"
	"github.com/feedctl/feedctl/producer"
)

// PageLimits holds the flags that determine when a feed's page is full.
type PageLimits struct {
	Bytes    int64
	Entities int
}

// Flags adds the flags. The given note is appended to their help.
func (l *PageLimits) Flags(flags *pflag.FlagSet, note string) {
	units.SizeVar(flags, &l.Bytes, "max-page-bytes", 1<<20, "begin a new page beyond this many `BYTES`"+note)
	flags.IntVar(&l.Entities, "max-page-entities", 10000, "begin a new page beyond this `NUMBER` of entities"+note)
}

// Check returns an error if a flag is invalid.
func (l *PageLimits) Check() error {
	var problems []error
	if l.Bytes <= 0 {
		problems = append(problems, exit.Usagef("--max-page-bytes %d must be positive", l.Bytes))
	}
	if l.Entities <= 0 {
		problems = append(problems, exit.Usagef("--max-page-entities %d must be positive", l.Entities))
	}
	return errors.Join(problems...)
}

func (l *PageLimits) config() producer.Config {
	return producer.Config{MaxPageBytes: l.Bytes, MaxPageEntities: l.Entities}
}
