package task

import (
	"errors"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/internal/exit"
)

// parseUntil parses a place in a feed: a time (RFC 3339) or, if it is not a time, a Content-ID.
func parseUntil(text string) consumer.Until {
	t, err := time.Parse(time.RFC3339, text)
	switch {
	case text == "":
		return consumer.Until{}
	case err == nil:
		return consumer.UntilTime(t)
	}
	return consumer.UntilContentID(text)
}

// hintUntil adds a remedy to an error about a place in a feed.
func hintUntil(err error) error {
	if _, ok := errors.AsType[*consumer.UntilNotFoundError](err); ok {
		return exit.WithHint(err, "\"feedctl tail\" with --from, which shows Content-IDs; a time is written like 2006-01-02T15:04:05Z")
	}
	if _, ok := errors.AsType[*consumer.PassedError](err); ok {
		return exit.WithHint(err, "a new sink, or --from with an earlier snapshot: what was applied cannot be undone")
	}
	if errors.Is(err, consumer.ErrNotOver) {
		return exit.WithHint(err, "an earlier time")
	}
	return err
}
