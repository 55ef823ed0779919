package kinds

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/origins"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/sinks"
	"github.com/feedctl/feedctl/sink/sqlite"
	"github.com/feedctl/feedctl/storage/stores"
)

// A place is the result of parsing the name of a source or a target.
type place struct {
	// id is the same for all names of the same place.
	id     string
	origin string // the origin of its server, as in [jobs.Identity]
	local  bool   // whether it is on the node
	watch  jobs.Watch
	// takes says which form of credential the place accepts.
	takes credentialForm
}

// A credentialForm is a form of credential, according to its use.
type credentialForm int

const (
	noCredential credentialForm = iota
	webCredential
	couchCredential
	password // of a database
)

// parseWeb parses the URL of a resource on a web server.
func parseWeb(raw string) (*url.URL, place, error) {
	if err := checkSecret(raw); err != nil {
		return nil, place{}, err
	}
	u, err := locate.ParseURL(raw)
	if err != nil {
		return nil, place{}, err
	}
	u.Host = hostPort(u)
	at := *u
	at.Path, at.RawPath = cmp.Or(at.Path, "/"), plainPath(cmp.Or(at.EscapedPath(), "/"))
	return u, place{id: at.String(), origin: origins.Of(u), takes: webCredential}, nil
}

// parseFeed parses the name of a feed: its URL on a server, or STORE#FEED.
func parseFeed(name string) (place, error) {
	if !locate.IsWeb(name) {
		return parseStored(name)
	}
	u, p, err := parseWeb(name)
	if err != nil {
		return place{}, err
	}
	// A feed at another URL is not necessarily on a feedctl server.
	if base, feed, ok := strings.Cut(u.Path, "/feeds/"); ok && u.RawQuery == "" && layout.CheckName(feed) == nil {
		server := url.URL{Scheme: u.Scheme, Host: u.Host, Path: base + "/"}
		p.watch = jobs.Watch{Type: "feedctl", Server: server.String(), Name: feed}
	}
	return p, nil
}

// parseStored parses STORE#FEED, or STORE#SNAPSHOT.
func parseStored(name string) (place, error) {
	if err := checkSecret(name); err != nil {
		return place{}, err
	}
	if !strings.Contains(name, "#") {
		return place{}, fmt.Errorf("%q is not STORE#NAME, where STORE is %s", name, stores.Forms)
	}
	at, err := locate.Parse(name, "")
	if err != nil {
		return place{}, err
	}
	p, err := parseStore(at.Store)
	if err != nil {
		return place{}, err
	}
	p.id += "#" + at.Name
	p.watch.Name = at.Name
	return p, nil
}

// parseStore parses the URL of a store.
func parseStore(raw string) (p place, err error) {
	if err := checkSecret(raw); err != nil {
		return p, err
	}
	if err := locate.CheckStore(raw); err != nil {
		return p, err
	}
	u, err := url.Parse(raw)
	if err != nil {
		return p, err
	}
	switch u.Scheme {
	case "memory":
		return p, errors.New("a store in memory is gone with the process: use another one")
	case "s3":
		return s3Store(u), nil
	case "postgres", "postgresql":
		return parseDatabase(raw)
	}
	if !filepath.IsAbs(cmp.Or(u.Opaque, u.Path)) {
		return p, fmt.Errorf("%q is relative to the working directory, which differs between nodes: write an absolute path", raw)
	}
	id := stores.Identity(raw).String()
	return place{id: id, local: true, watch: jobs.Watch{Type: "store", Server: id, Local: true}}, nil
}

// s3Store returns the place of a store in S3. The endpoint is part of the id, since buckets on two
// servers may have the same name.
func s3Store(u *url.URL) place {
	query := u.Query()
	at := url.URL{Scheme: "s3", Host: u.Host, Path: strings.TrimRight(u.Path, "/")}
	watched := at
	watched.RawQuery = query.Encode()
	p := place{
		origin: "https://" + strings.Join(slices.DeleteFunc([]string{"s3", query.Get("region"), "amazonaws.com:443"}, func(s string) bool { return s == "" }), "."),
		watch:  jobs.Watch{Type: "store", Server: watched.String()},
	}
	if endpoint, err := url.Parse(query.Get("endpoint")); err == nil && endpoint.Host != "" {
		p.origin = origins.Of(endpoint)
		at.RawQuery = url.Values{"endpoint": {p.origin + strings.TrimRight(endpoint.Path, "/")}}.Encode()
	}
	p.id = at.String()
	return p
}

// parseDatabase parses the URL of a schema of a PostgreSQL database.
func parseDatabase(raw string) (p place, err error) {
	if err := checkSecret(raw); err != nil {
		return p, err
	}
	u, err := locate.ParseDatabase("the URL", raw)
	if err != nil {
		return p, err
	}
	id := stores.Identity(raw)
	p = database(u)
	p.id = p.id + "?schema=" + id.Query().Get("schema")
	watched := *u
	watched.Scheme, watched.RawQuery = "postgres", u.Query().Encode()
	p.watch = jobs.Watch{Type: "store", Server: watched.String(), Local: p.local}
	return p, nil
}

// database returns the place of a database. If it is reached through a socket in the file system, the
// database is local to the node.
func database(u *url.URL) place {
	query := u.Query()
	host := cmp.Or(query.Get("host"), u.Hostname())
	if strings.Contains(u.Host, ",") {
		host = u.Host // several servers
	}
	host = strings.ToLower(host)
	name := cmp.Or(query.Get("dbname"), strings.Trim(u.Path, "/"), query.Get("user"), u.User.Username())
	port := cmp.Or(query.Get("port"), u.Port(), "5432")
	if host == "" || strings.HasPrefix(host, "/") {
		return place{id: "postgres:" + host + ":" + port + "/" + name, local: true, takes: password}
	}
	if !strings.Contains(host, ",") {
		host = net.JoinHostPort(strings.Trim(host, "[]"), port)
	}
	return place{id: "postgres://" + host + "/" + name, origin: "postgres://" + host, takes: password}
}

// parseSink parses the name of a sink.
func parseSink(name string) (p place, err error) {
	if err := checkSecret(name); err != nil {
		return p, err
	}
	s, err := sink.ParseSpec(name)
	if err != nil {
		return p, err
	}
	if err := sinks.Check(s); err != nil {
		return p, err
	}
	switch s.Scheme {
	case "-":
		return p, errors.New("a job has no standard output: write to a file, or a database")
	case "jsonl", "dir", "sqlite":
		if !filepath.IsAbs(s.Path) {
			return p, fmt.Errorf("%q is relative to the working directory, which differs between nodes: write an absolute path", name)
		}
		id := s.Scheme + ":" + filepath.Clean(s.Path)
		if s.Scheme == "sqlite" {
			id += "?table=" + cmp.Or(s.Params.Get("table"), sqlite.DefaultTable)
		}
		return place{id: id, local: true}, nil
	case "couchdb":
		p, err := parseCouch(s.Path)
		p.id = "couchdb:" + p.id + "?name=" + url.QueryEscape(s.Params.Get("name"))
		p.watch = jobs.Watch{}
		return p, err
	case "kinto":
		p, err := parseKinto(s.Path)
		p.id = "kinto:" + p.id + "?name=" + url.QueryEscape(s.Params.Get("name"))
		p.watch = jobs.Watch{}
		return p, err
	}
	return postgresSink(s)
}

// postgresSink returns the place of a table.
func postgresSink(s sink.Spec) (place, error) {
	table, consumer := s.Params.Get("table"), s.Params.Get("name")
	path := s.Params.Get("search_path") + s.Params.Get("options")
	for _, name := range []string{"table", "name", "columns", "strict"} {
		s.Params.Del(name)
	}
	u, err := url.Parse(s.String())
	if err != nil { // the error may contain a password
		return place{}, errors.New("the URL of the database cannot be parsed")
	}
	if !strings.Contains(table, ".") && path == "" {
		table = "public." + table
	}
	p := database(u)
	p.id += "?" + url.Values{"table": {table}, "name": {consumer}, "path": {path}}.Encode()
	return p, nil
}

// parseCouch parses the URL of a CouchDB database.
func parseCouch(raw string) (place, error) {
	u, p, err := parseWeb(raw)
	if err != nil {
		return place{}, err
	}
	p.id, p.takes = strings.TrimRight(p.id, "/"), couchCredential
	path := strings.TrimRight(u.EscapedPath(), "/")
	slash := strings.LastIndexByte(path, '/')
	if slash < 0 || u.RawQuery != "" {
		return place{}, fmt.Errorf("%q does not name a database: want http://HOST:PORT/DATABASE", raw)
	}
	name, err := url.PathUnescape(path[slash+1:])
	if err != nil {
		return place{}, err
	}
	server := *u
	server.RawPath = path[:slash+1]
	if server.Path, err = url.PathUnescape(server.RawPath); err != nil {
		return place{}, err
	}
	p.watch = jobs.Watch{Type: "couchdb", Server: server.String(), Name: name}
	return p, nil
}

// parseKinto parses the URL of a collection of a Kinto server.
func parseKinto(raw string) (place, error) {
	p, err := parseKintoSource(raw)
	if err == nil && strings.HasSuffix(p.watch.Name, "/") {
		return place{}, notCollection(raw)
	}
	return p, err
}

// parseKintoSource parses the URL of a collection, or of a bucket. All collections of a bucket are
// watched.
func parseKintoSource(raw string) (place, error) {
	u, p, err := parseWeb(raw)
	if err != nil {
		return place{}, err
	}
	a, err := kinto.ParseURL(u.String())
	switch {
	case err != nil:
		return place{}, err
	case a.Bucket == "":
		return place{}, notCollection(raw)
	}
	p.id = strings.TrimRight(p.id, "/")
	if a.Collection == "" {
		p.id = strings.TrimSuffix(p.id, "/collections")
	} else {
		p.id = strings.TrimSuffix(p.id, "/records")
	}
	p.watch = jobs.Watch{Type: "kinto", Server: a.Root + "/", Name: url.PathEscape(a.Bucket) + "/" + url.PathEscape(a.Collection)}
	return p, nil
}

func notCollection(raw string) error {
	return fmt.Errorf("%q does not name a collection: want https://HOST/v1/buckets/BUCKET/collections/COLLECTION", raw)
}

// parseFeeds parses STORE#FEED, or STORE#NAMES with the names of the feeds of a bucket.
func parseFeeds(name string) (place, error) {
	if !strings.Contains(name, "#") || !strings.Contains(name, "*") {
		return parseStored(name)
	}
	one, names, err := task.ParseFeeds(name, "")
	if err != nil {
		return place{}, err
	}
	p, err := parseStored(one.Store + "#" + one.Name)
	p.id = strings.TrimSuffix(p.id, one.Name) + string(names)
	p.watch = jobs.Watch{}
	return p, err
}

// parseAgainst parses the name of the source with which a feed is compared.
func parseAgainst(name string) (place, error) {
	switch scheme, address, _ := strings.Cut(name, ":"); scheme {
	case "couchdb":
		return parseCouch(address)
	case "kinto":
		return parseKinto(address)
	}
	return place{}, fmt.Errorf("%q is not couchdb:URL or kinto:URL", name)
}

// hostPort returns the host and port of a web URL in a canonical form, without the default port.
func hostPort(u *url.URL) string {
	hostPort := strings.TrimPrefix(origins.Of(u), u.Scheme+"://")
	return strings.TrimSuffix(hostPort, map[string]string{"http": ":80", "https": ":443"}[u.Scheme])
}

// plainPath returns an escaped path in a canonical form: unreserved characters are not escaped, and the
// escapes of others are in upper case (RFC 3986, section 6.2.2).
func plainPath(path string) string {
	return escape.ReplaceAllStringFunc(path, func(text string) string {
		plain, err := url.PathUnescape(text)
		if err == nil && unreserved.MatchString(plain) {
			return plain
		}
		return strings.ToUpper(text)
	})
}

var (
	escape     = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
	unreserved = regexp.MustCompile(`^[A-Za-z0-9._~-]$`)
)
