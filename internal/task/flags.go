package task

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/jsonptr"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/units"
)

const keyUsage = "JSON `POINTER` into the body to the key of the thing that an entity is about; for feeds without Content-Location"

// CheckPointer checks the value of a flag: a JSON pointer, or "".
func CheckPointer(flag, pointer string) error {
	if pointer == "" {
		return nil
	}
	if _, err := jsonptr.Compile(pointer); err != nil {
		return exit.Usagef("%s: %w", flag, err)
	}
	return nil
}

// Errors returns the errors that were joined into err, as by [errors.Join].
func Errors(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, Errors(e)...)
	}
	return all
}

// An ArgumentError is an error in an argument, such as the name of a feed. The other errors of
// Check methods are errors in flags.
type ArgumentError struct{ error }

// Unwrap returns the underlying error.
func (e *ArgumentError) Unwrap() error { return e.error }

// ofArgument makes an error an [ArgumentError].
func ofArgument(err error) error {
	if err == nil {
		return nil
	}
	return &ArgumentError{err}
}

// checkArgument checks an argument URL, NAME or STORE#NAME.
func checkArgument(arg string) error {
	if at, err := locate.Server(arg, consumer.Config{}); at != nil || err != nil {
		return ofArgument(err)
	}
	return checkStored(arg)
}

// checkStored checks an argument NAME or STORE#NAME.
func checkStored(arg string) error {
	at, err := locate.Parse(arg, "")
	if err != nil || at.Store == "" {
		return ofArgument(err)
	}
	return ofArgument(locate.CheckStore(at.Store))
}

// errQuarantine is wrapped by the error that a task returns if it put too much into quarantine.
var errQuarantine = exit.Errorf(exit.Quarantine, "too many entities were rejected")

func limitFlag(flags *pflag.FlagSet, l *units.Limit) {
	flags.Var(l, "max-quarantine", "fail if more than this `NUMBER` of entities, or P% of them, are rejected (default: if all are)")
}

// checkLimit returns an error if a task rejected more entities than the limit; the text where says where these are
// and why they were rejected.
func checkLimit(l *units.Limit, rejected, all int64, where string) error {
	if !l.Exceeded(rejected, all, true) {
		return nil
	}
	return exit.WithHint(
		fmt.Errorf("%w: %s of %s: %s", errQuarantine, human.Count(rejected), human.Plural(all, "entity", "entities"), where),
		"removing the causes; or --max-quarantine NUMBER or P%, to accept that many (100%: all)",
	)
}
