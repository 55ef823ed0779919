// Package sink opens the sinks of feedctl by name: "jsonl:out.jsonl", "dir:out",
// "sqlite:out.db?table=zones", "postgres://db/shop?table=zones",
// "couchdb:http://db/zones", "kinto:http://kinto/v1/buckets/dns/collections/zones" or
// "-". The sinks are in the packages below; each stores the position in the feed together
// with the data, as [consumer.Sink] requires.
package sink

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/suggest"
)

// MaxInline is the size in bytes up to which a sink holds a body in memory. A
// larger body is streamed.
const MaxInline = 1 << 20

var (
	// ErrLocked is returned by a sink that another consumer has open.
	ErrLocked = errors.New("another consumer has it open: stop that one first, or use another sink")
	// ErrUnavailable is returned by an opener if the sink's server is not available at
	// the moment; opening it later may succeed. A sink that is open returns it, too.
	ErrUnavailable = consumer.ErrSinkUnavailable
	// ErrNoKey is returned for an entity without a key by a sink that needs keys.
	ErrNoKey = errors.New("entity has no key: it has no Content-Location header; take the key from its body with --key")
	// ErrSpec is returned for an invalid spec.
	ErrSpec = errors.New("invalid sink")
)

// A Spec names a sink: SCHEME:PATH?PARAMETERS, or "-" for standard output.
type Spec struct {
	// Scheme names the kind: "jsonl", or "-".
	Scheme string
	// Path is a file or a directory, without any decoding. It ends at the first "?".
	Path string
	// Params are the parameters.
	Params url.Values
}

// A Standing is the position of a consumer in a feed.
type Standing struct {
	// Name is the table or the consumer, to distinguish the consumers of one sink.
	// It is empty in sinks that can have only one.
	Name     string
	Position feed.Position
}

// An Opener opens a sink of one kind.
type Opener func(ctx context.Context, s Spec) (consumer.Sink, error)

// A Registry maps schemes to openers.
type Registry map[string]Opener

// ParseSpec parses a spec, with any scheme.
func ParseSpec(spec string) (Spec, error) {
	if spec == "-" {
		return Spec{Scheme: "-"}, nil
	}
	scheme, rest, ok := strings.Cut(spec, ":")
	if !ok || scheme == "" {
		return Spec{}, fmt.Errorf("read sink %q: %w: want SCHEME:PATH, or - for standard output", Redact(spec), ErrSpec)
	}
	scheme = strings.ToLower(scheme) // RFC 3986, section 3.1
	path, query, _ := strings.Cut(rest, "?")
	if path == "" {
		return Spec{}, fmt.Errorf("read sink %q: %w: no path after %q", spec, ErrSpec, scheme+":")
	}
	params, err := url.ParseQuery(query)
	if err != nil {
		return Spec{}, fmt.Errorf("read sink %q: %w: parameters: %w", Redact(spec), ErrSpec, err)
	}
	return Spec{Scheme: scheme, Path: path, Params: params}, nil
}

var (
	// A password may contain an unescaped "/", "?" or "#"; then it is recognized by not being a
	// port. The colon of the scheme may be missing.
	userinfo = regexp.MustCompile(`(//[^/?#@:\[]*):(?:[^/?#]*|[0-9]*[^0-9/?#@].*)@`)
	// There may be a token in place of a user name, except in the URL of a database.
	token = regexp.MustCompile(`(?i)(https?:?//)[^/?#@:]+@`)
	// A URL without one or both of its slashes may still contain secrets.
	slashless = regexp.MustCompile(`(?i)((?:https?|postgres(?:ql)?):/?)[^/?#@:]*:[^/?#@]*@`)
	secret    = regexp.MustCompile(`(?i)([?&](?:ssl)?password=)[^&]*`)
)

// Redact removes what may be a password, or a token in place of a user name, from a spec or
// from the URL of a store or a server, which need not be valid.
func Redact(spec string) string {
	spec = userinfo.ReplaceAllString(spec, "$1:xxxxx@")
	spec = token.ReplaceAllString(spec, "${1}xxxxx@")
	spec = slashless.ReplaceAllString(spec, "${1}xxxxx@")
	return secret.ReplaceAllString(spec, "${1}xxxxx")
}

// String returns the spec in the form that [ParseSpec] reads.
func (s Spec) String() string {
	if s.Scheme == "-" {
		return "-"
	}
	text := s.Scheme + ":" + s.Path
	if len(s.Params) > 0 {
		text += "?" + s.Params.Encode()
	}
	return text
}

// CheckParams returns an error for parameters other than the allowed ones, and for any
// given twice.
func (s Spec) CheckParams(allowed ...string) error {
	for _, name := range slices.Sorted(maps.Keys(s.Params)) {
		if !slices.Contains(allowed, name) {
			known := "it has no parameters"
			if len(allowed) > 0 {
				known = "it takes " + strings.Join(allowed, ", ") + suggest.DidYouMean(name, allowed, "")
			}
			return fmt.Errorf("open sink %s: %w: unknown parameter %q: %s", Redact(s.String()), ErrSpec, name, known)
		}
		if len(s.Params[name]) > 1 {
			return fmt.Errorf("open sink %s: %w: parameter %q is given twice", Redact(s.String()), ErrSpec, name)
		}
	}
	return nil
}

// CheckParent returns an error that matches [fs.ErrNotExist] if the parent directory of path
// does not exist: a sink does not create it.
func CheckParent(path string) error {
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return missingParentError(dir)
	}
	return nil
}

// A missingParentError is the path of a directory that does not exist.
type missingParentError string

func (m missingParentError) Error() string {
	return fmt.Sprintf("directory %s does not exist: create it first", string(m))
}

func (missingParentError) Is(target error) bool { return target == fs.ErrNotExist }

// Open opens the sink that spec names.
func (r Registry) Open(ctx context.Context, spec string) (consumer.Sink, error) {
	s, err := ParseSpec(spec)
	if err != nil {
		return nil, err
	}
	open, ok := r[s.Scheme]
	if !ok {
		known := slices.Sorted(maps.Keys(r))
		return nil, fmt.Errorf("open sink %q: %w: unknown scheme %q: known are %s%s", Redact(spec), ErrSpec, s.Scheme,
			strings.Join(known, ", "), suggest.DidYouMean(s.Scheme, known, ""))
	}
	return open(ctx, s)
}
