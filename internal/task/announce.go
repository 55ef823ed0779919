package task

import (
	"cmp"
	"strings"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/sink"
)

// unannounced is the value of --announce that makes a consumer announce nothing.
const unannounced = "none"

const announceUsage = "`NAME` that is announced to the server of the feed, with the position; none: announce nothing (default: from the sink)"

// checkAnnounce checks the value of --announce.
func checkAnnounce(name string) error {
	if name != feed.CleanConsumerName(name) {
		return exit.Usagef("--announce %q must be at most %d printable ASCII characters, without leading or trailing spaces", name, feed.MaxConsumerName)
	}
	return nil
}

// announced returns the name that a consumer announces, given the value of --announce and its sink.
func announced(name, into string) string {
	switch name {
	case unannounced:
		return ""
	case "":
		return sinkName(into)
	}
	return name
}

// sinkName returns a name for the consumer of a sink, such as "sqlite:zones". It contains no host, user, password or
// directory.
func sinkName(into string) string {
	s, err := sink.ParseSpec(into)
	if err != nil {
		return ""
	}
	if s.Scheme == "-" {
		return "stdout"
	}
	name := cmp.Or(s.Params.Get("table"), s.Params.Get("name"))
	if name == "" {
		path := strings.TrimRight(s.Path, `/\`)
		name = path[strings.LastIndexAny(path, `/\`)+1:]
	}
	if strings.ContainsAny(name, "@#") || name == "" { // the part before the character may contain a password
		return s.Scheme
	}
	return feed.CleanConsumerName(s.Scheme + ":" + name)
}
