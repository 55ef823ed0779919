package task

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/locate"
)

// MaxWhole is the largest body that is held in memory, in bytes; larger ones
// pass through as streams.
const MaxWhole = 256 << 10

// A Client holds the flags of all tasks and commands that read from a server.
type Client struct {
	// Credential is the credential for the server.
	Credential   credential.Source
	Headers      []string
	AllowOrigins []string
	Retries      int
}

// Flags adds all flags.
func (c *Client) Flags(flags *pflag.FlagSet) {
	c.RequestFlags(flags)
	c.OriginFlags(flags)
	flags.IntVar(&c.Retries, "retries", 0, "give up after a request failed this `NUMBER` of times in a row; negative: never (default 8, or never with --follow)")
}

// RequestFlags adds the flags that say what to send with each request.
func (c *Client) RequestFlags(flags *pflag.FlagSet) {
	c.Credential.Variable = "FEEDCTL_CREDENTIALS"
	flags.StringVar(&c.Credential.File, "credentials-file", "", "`FILE` with the credential for the server (default: the variable FEEDCTL_CREDENTIALS)")
	flags.StringArrayVar(&c.Headers, "header", nil, "`NAME: VALUE` to send with each request; may be repeated")
}

// OriginFlags adds the flag that says where links may lead.
func (c *Client) OriginFlags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&c.AllowOrigins, "allow-origin", nil, "other `ORIGIN` that links and redirects may lead to, such as https://cdn.example.org; may be repeated")
}

// Header returns the fields of --header.
func (c *Client) Header() (http.Header, error) {
	h := make(http.Header)
	var problems []error
	for _, field := range c.Headers {
		name, value, ok := strings.Cut(field, ":")
		name = strings.TrimSpace(name)
		switch {
		case !ok || name == "":
			problems = append(problems, exit.Usagef("--header: want \"NAME: VALUE\"")) // the field may be a secret
		case strings.EqualFold(name, "Authorization"):
			problems = append(problems, exit.Usagef("--header: credentials are for --credentials-file or the variable FEEDCTL_CREDENTIALS"))
		}
		h.Add(name, strings.TrimSpace(value))
	}
	return h, errors.Join(problems...)
}

// Check returns an error if a flag is invalid. It reads no credentials.
func (c *Client) Check() error {
	_, err := c.Header()
	problems := []error{err}
	for _, origin := range c.AllowOrigins {
		if _, err := locate.ParseURL(origin); err != nil {
			problems = append(problems, exit.Usagef("--allow-origin: %w", err))
		}
	}
	return errors.Join(problems...)
}

// Config returns the settings of a client of a server.
func (c *Client) Config(e *Env) (consumer.Config, error) {
	credentials, err := c.Credential.Read()
	if err != nil {
		return consumer.Config{}, err
	}
	if err := c.Check(); err != nil {
		return consumer.Config{}, err
	}
	header, err := c.Header()
	return consumer.Config{
		HTTPClient:   &http.Client{Transport: e.Transport},
		Header:       header,
		Credentials:  credentials,
		AllowOrigins: c.AllowOrigins,
		MaxWhole:     MaxWhole,
		Retry:        consumer.RetryConfig{Attempts: e.attempts(c.Retries)},
		Ways:         waysDir(),
		Logger:       e.Log,
	}, err
}

// waysDir returns the directory in which consumers record the pages that long crawls have passed: feedctl/ways in the
// user's cache directory, or "" if there is none.
func waysDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "feedctl", "ways")
}

// Locate finds what an argument names: a URL on a server, STORE#NAME, or NAME in the store of the
// environment. The function path, such as [layout.FeedPath], returns the path of the URL for a name.
func (c *Client) Locate(ctx context.Context, e *Env, arg string, path func(name string) string, want Access) (*locate.Location, error) {
	config, err := c.Config(e)
	if err != nil {
		return nil, err
	}
	if at, err := locate.Server(arg, config); at != nil || err != nil {
		return at, err
	}
	at, err := e.Parse(arg)
	if err != nil {
		return nil, err
	}
	store, err := e.OpenStore(ctx, at.Store, want)
	if err != nil {
		return nil, err
	}
	found := at.Open(store, path, config)
	e.AtEnd(found.Close, "source")
	return found, nil
}

// TellMissing makes the client of a location call e.Missing, unless that is nil.
func (e *Env) TellMissing(at *locate.Location) {
	if e.Missing == nil {
		return
	}
	at.Config.Missing = func(ctx context.Context) { e.Missing(at.DidYouMean(ctx)) }
}

// Suggest adds the name of a similar feed to an error if it says that the feed does not exist.
func Suggest(ctx context.Context, at *locate.Location, err error) error {
	if errors.Is(err, chain.ErrNoFeed) || errors.Is(err, consumer.ErrNotFound) || exit.HTTPStatus(err) == http.StatusNotFound {
		return at.Suggest(ctx, err)
	}
	return err
}
