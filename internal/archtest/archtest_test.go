// Package archtest checks the architecture: which packages of the module a package may import, and which
// libraries.
package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/feedctl/feedctl/"

// A room is a package, or a group of packages with the same rules.
type room struct {
	rooms     []string // the rooms that it may import, which are below it in the architecture
	libraries []string // the libraries that it may import, including packages below them
}

// rooms holds the rooms by package path, where "/*" matches every package directly below a path, and
// "/..." every package below it. The longest matching key applies. A room may always import its internal
// packages (room/internal/...).
var rooms = map[string]room{
	// The model: pure packages.
	"page":                {rooms: []string{"internal/httpfield"}},
	"layout":              {},
	"internal/archtest":   {},
	"internal/installed":  {},
	"internal/s3test":     {rooms: []string{"internal/installed"}},
	"internal/s3fault":    {},
	"internal/pgtest":     {libraries: []string{"golang.org/x/sys"}},
	"internal/httpfault":  {},
	"internal/couchtest":  {rooms: []string{"internal/httpfault", "internal/installed", "internal/loopback"}},
	"internal/kintotest":  {rooms: []string{"internal/httpfault", "internal/installed", "internal/loopback", "internal/pgtest"}},
	"internal/couchdiff":  {},
	"internal/loopback":   {},
	"internal/httpfield":  {},
	"internal/jsonptr":    {rooms: []string{"internal/jsonscan"}},
	"internal/lru":        {},
	"internal/selfcheck":  {},
	"internal/backoff":    {},
	"internal/memlimit":   {},
	"internal/access":     {rooms: []string{"internal/problem"}},
	"internal/problem":    {},
	"internal/jobsready":  {rooms: []string{"internal/problem", "internal/readiness", "jobs"}},
	"internal/readiness":  {rooms: []string{"internal/problem"}},
	"internal/idle":       {},
	"internal/shared":     {},
	"internal/shell":      {},
	"internal/inprocess":  {},
	"internal/disktest":   {libraries: []string{"golang.org/x/sys"}},
	"internal/faulttest":  {rooms: []string{"storage", "storage/fault", "storage/memory"}},
	"internal/filepart":   {},
	"internal/longfeed":   {rooms: []string{"chain", "feed", "layout", "page", "storage"}},
	"internal/monitoring": {rooms: []string{"internal/metrics/catalog"}, libraries: []string{"go.yaml.in/yaml/v3"}},
	"internal/notices":    {},
	"internal/represent":  {rooms: []string{"feed", "internal/httpfield", "internal/problem"}, libraries: []string{"github.com/klauspost/compress"}},
	"internal/regular":    {},
	"internal/suggest":    {},
	"internal/together":   {},
	"internal/tcp":        {libraries: []string{"golang.org/x/sys"}},
	"internal/pgerr":      {},
	"internal/draft":      {rooms: []string{"feed", "page", "storage"}},
	"internal/webserver":  {rooms: []string{"internal/tcp"}},
	"internal/accesslog":  {rooms: []string{"internal/recorded"}},
	"internal/recorded":   {},
	"internal/complete":   {rooms: []string{"bridge/couchdb", "chain", "input", "internal/locate", "outbox", "snapshot/snapshots", "storage"}, libraries: []string{"github.com/spf13/pflag"}},
	"internal/cli":        {rooms: []string{"internal/suggest"}, libraries: []string{"github.com/knadh/koanf", "github.com/spf13/cobra", "github.com/spf13/pflag"}},
	"internal/credential": {rooms: []string{"consumer", "couchdb", "kinto"}},
	"internal/against":    {rooms: []string{"bridge/couchdb/changes", "consumer", "couchdb", "feed", "internal/backoff", "kinto", "outbox", "sink/kinto", "sink/patch", "sink/sqlite"}},
	"internal/directory":  {rooms: []string{"consumer", "internal/credential", "layout", "server", "sink"}},
	"internal/exit":       {rooms: []string{"chain", "consumer", "couchdb", "digest", "digest/digests", "internal/credential", "kinto", "layout", "outbox", "page", "producer", "snapshot", "snapshot/snapshots", "storage", "verify"}},
	"internal/locate": {rooms: []string{
		"chain", "consumer", "consumer/fromstore", "digest", "internal/backoff", "internal/directory", "internal/exit", "internal/suggest", "layout", "sink", "storage", "storage/postgres", "storage/stores",
	}},
	"internal/metrics":         {rooms: []string{"bridge", "consumer", "internal/metrics/catalog", "internal/readiness", "jobs", "outbox", "publish", "readers", "replica", "retention/maintain"}, libraries: []string{"github.com/prometheus/client_golang"}},
	"internal/metrics/catalog": {libraries: []string{"github.com/prometheus/client_golang"}},
	"internal/console":         {},
	"internal/tracing":         {rooms: []string{"consumer", "feed", "internal/recorded", "producer", "publish", "storage", "storage/observe"}, libraries: []string{"google.golang.org/protobuf"}},
	"internal/human":           {},
	"internal/progress":        {rooms: []string{"internal/console", "internal/human"}},
	"internal/units":           {libraries: []string{"github.com/spf13/pflag"}},
	"feed":                     {rooms: []string{"internal/httpfield", "page"}, libraries: []string{"github.com/tomnomnom/linkheader"}},
	"snapshot":                 {rooms: []string{"feed", "internal/jsonscan", "internal/selfcheck", "page"}},
	"digest":                   {rooms: []string{"feed", "snapshot"}},
	"pageindex":                {},

	// Package storage does not depend on feeds.
	"storage":             {},
	"storage/storagetest": {rooms: []string{"storage"}, libraries: []string{"github.com/google/go-cmp"}},
	"storage/observe":     {rooms: []string{"storage"}},
	"storage/*":           {rooms: []string{"internal/backoff", "internal/filepart", "internal/regular", "internal/suggest", "internal/tcp", "storage"}, libraries: []string{"golang.org/x/sync", "golang.org/x/sys"}},
	"storage/stores":      {rooms: []string{"internal/schema", "storage", "storage/..."}},
	"storage/postgres":    {rooms: []string{"internal/backoff", "internal/tcp", "internal/pgerr", "internal/schema", "storage"}},
	"internal/schema":     {rooms: []string{"internal/pgerr", "internal/suggest", "storage"}},

	// Producing.
	"chain":     {rooms: []string{"feed", "internal/selfcheck", "internal/together", "layout", "page", "storage"}},
	"feedstore": {rooms: []string{"chain", "digest", "digest/digests", "feed", "internal/lru", "layout", "page", "pagecache", "snapshot", "snapshot/snapshots", "storage"}, libraries: []string{"golang.org/x/sync"}},
	"pagecache": {rooms: []string{"chain", "internal/filepart", "internal/regular", "layout", "storage"}, libraries: []string{"golang.org/x/sys"}},
	"producer":  {rooms: []string{"chain", "feed", "layout", "page", "storage", "internal/backoff", "internal/draft", "internal/selfcheck"}, libraries: []string{"golang.org/x/sync"}},
	"digest/digests": {
		rooms:     []string{"digest", "internal/backoff", "internal/selfcheck", "layout", "storage"},
		libraries: []string{"golang.org/x/sync"},
	},
	"snapshot/snapshots": {
		rooms:     []string{"feed", "internal/backoff", "internal/draft", "layout", "page", "snapshot", "storage"},
		libraries: []string{"golang.org/x/sync"},
	},
	"input":              {rooms: []string{"feed", "page", "internal/jsonptr", "internal/jsonscan"}},
	"retention":          {rooms: []string{"chain", "internal/selfcheck", "layout", "storage"}},
	"retention/maintain": {rooms: []string{"chain", "feed", "internal/backoff", "layout", "producer", "retention", "snapshot/snapshots", "storage"}},
	"outbox": {rooms: []string{
		"chain", "feed", "layout", "page", "producer", "snapshot", "snapshot/snapshots", "storage", "storage/postgres", "internal/backoff", "internal/schema", "internal/tcp",
	}},

	// Packages for CouchDB as a source or target.
	"internal/jsonscan":      {},
	"internal/memnet":        {},
	"internal/roundtrip":     {rooms: []string{"internal/backoff", "internal/idle", "internal/origins", "internal/tcp"}},
	"couchdb":                {rooms: []string{"page", "internal/jsonscan", "internal/origins", "internal/roundtrip"}},
	"bridge/couchdb/changes": {rooms: []string{"couchdb", "internal/jsonscan"}},
	"bridge":                 {rooms: []string{"chain", "feed", "feedstore", "internal/backoff", "layout", "page", "producer", "storage"}},
	"bridge/couchdb": {
		rooms:     []string{"bridge", "bridge/couchdb/changes", "chain", "couchdb", "feed", "internal/jsonscan", "producer", "storage"},
		libraries: []string{"golang.org/x/sync"},
	},
	"bridge/internal/bridgetest": {rooms: []string{"bridge", "chain", "feed", "page", "storage", "verify"}},

	// Packages for Kinto as a source or target.
	"kinto":        {rooms: []string{"internal/jsonscan", "internal/origins", "internal/roundtrip"}, libraries: []string{"github.com/google/uuid"}},
	"bridge/kinto": {rooms: []string{"bridge", "chain", "feed", "internal/backoff", "internal/jsonscan", "kinto", "layout", "producer", "storage"}},

	// Consuming.
	"consumer": {
		rooms:     []string{"digest", "feed", "page", "pageindex", "snapshot", "internal/backoff", "internal/idle", "internal/jsonptr", "internal/origins", "internal/tcp"},
		libraries: []string{"github.com/klauspost/compress", "golang.org/x/sync"},
	},
	"publish":                  {rooms: []string{"consumer", "feed", "internal/backoff", "internal/regular", "layout", "page", "producer"}, libraries: []string{"golang.org/x/sync"}},
	"consumer/fromstore":       {rooms: []string{"chain", "consumer", "digest", "digest/digests", "feed", "feedstore", "layout", "page", "storage"}},
	"sink":                     {rooms: []string{"consumer", "digest", "feed", "internal/suggest"}},
	"sink/patch":               {rooms: []string{"sink/internal/...", "internal/jsonptr", "internal/jsonscan"}},
	"sink/sinktest":            {rooms: []string{"consumer", "feed", "sink", "sink/patch"}, libraries: []string{"github.com/google/go-cmp"}},
	"sink/*":                   {rooms: []string{"consumer", "digest", "feed", "sink", "sink/internal/...", "sink/patch", "internal/jsonptr", "internal/jsonscan", "internal/regular"}},
	"sink/jsonl":               {rooms: []string{"consumer", "feed", "sink", "sink/internal/...", "internal/jsonscan", "internal/regular"}, libraries: []string{"github.com/segmentio/asm"}},
	"sink/postgres":            {rooms: []string{"consumer", "digest", "feed", "sink", "sink/internal/...", "sink/patch", "internal/jsonptr", "internal/jsonscan", "internal/tcp", "internal/suggest"}},
	"sink/couchdb":             {rooms: []string{"consumer", "couchdb", "feed", "sink", "sink/internal/...", "sink/patch", "internal/backoff", "internal/jsonscan"}, libraries: []string{"golang.org/x/sys"}},
	"sink/kinto":               {rooms: []string{"consumer", "kinto", "feed", "sink", "sink/internal/...", "sink/patch", "internal/backoff", "internal/jsonscan"}},
	"sink/sinks":               {rooms: []string{"consumer", "couchdb", "internal/suggest", "kinto", "reconcile", "sink", "sink/..."}},
	"sink/internal/...":        {rooms: []string{"consumer", "feed", "sink", "sink/internal/...", "internal/jsonscan", "internal/regular"}, libraries: []string{"golang.org/x/sys"}},
	"sink/internal/pgposition": {rooms: []string{"feed", "internal/backoff", "internal/pgerr", "sink", "sink/internal/position"}},
	"sink/internal/position":   {rooms: []string{"sink/internal/durable"}},

	// Serving and checking.
	"server": {
		rooms:     []string{"chain", "digest", "feed", "feedstore", "input", "internal/access", "internal/httpfield", "internal/lru", "internal/metrics/catalog", "internal/problem", "internal/readiness", "internal/represent", "internal/tcp", "layout", "page", "pagecache", "pageindex", "producer", "retention", "snapshot", "snapshot/snapshots", "storage", "storage/observe"},
		libraries: []string{"github.com/go-chi/chi/v5", "github.com/prometheus/client_golang", "golang.org/x/sync"},
	},
	"console": {
		rooms:     []string{"bridge", "chain", "digest", "digest/digests", "feed", "feedstore", "internal/access", "internal/console", "internal/human", "internal/jsonscan", "internal/lru", "internal/problem", "internal/shell", "internal/together", "internal/units", "jobs", "layout", "page", "readers", "server", "snapshot", "snapshot/snapshots", "storage", "storage/observe"},
		libraries: []string{"github.com/go-chi/chi/v5", "golang.org/x/sync"},
	},
	"readers":       {rooms: []string{"chain", "feed", "feedstore", "internal/recorded", "layout"}},
	"replica":       {rooms: []string{"chain", "digest", "digest/digests", "feed", "layout", "snapshot", "snapshot/snapshots", "storage"}, libraries: []string{"golang.org/x/sync"}},
	"doctor":        {rooms: []string{"feed", "layout", "page", "storage"}, libraries: []string{"golang.org/x/sys"}},
	"reconcile":     {rooms: []string{"consumer", "digest", "feed", "internal/jsonptr", "sink"}},
	"snapshot/fold": {rooms: []string{"chain", "consumer", "consumer/fromstore", "digest", "digest/digests", "feed", "internal/draft", "layout", "sink", "sink/sqlite", "snapshot", "snapshot/snapshots", "storage"}},
	"verify":        {rooms: []string{"chain", "feed", "internal/inprocess", "internal/regular", "layout", "page", "pageindex", "server", "snapshot", "storage"}},
	"erase":         {rooms: []string{"bridge", "chain", "digest", "digest/digests", "feed", "internal/jsonptr", "internal/together", "layout", "page", "producer", "storage"}},
	"restore":       {rooms: []string{"bridge/couchdb/changes", "consumer", "couchdb", "digest", "feed", "internal/jsonscan", "sink", "sink/sqlite"}},
	"repair":        {rooms: []string{"chain", "feed", "internal/human", "layout", "page", "storage"}},

	// Commands, and what they share with jobs.
	"internal/task": {
		rooms: []string{
			"bridge", "bridge/couchdb", "bridge/kinto", "chain", "consumer", "couchdb", "digest", "digest/digests", "erase", "feed", "internal/against", "internal/credential", "internal/exit", "internal/human", "internal/jsonptr", "internal/locate",
			"internal/progress", "internal/shared", "internal/tracing", "internal/units", "kinto", "layout", "outbox", "producer", "retention", "retention/maintain", "reconcile", "restore", "sink", "sink/sinks", "snapshot", "snapshot/fold", "snapshot/snapshots", "storage", "storage/...", "verify",
		},
		libraries: []string{"github.com/spf13/pflag"},
	},
	"internal/app": {
		rooms: []string{
			"internal/cli", "internal/complete", "internal/console", "internal/exit", "internal/human", "internal/metrics", "internal/progress", "internal/readiness", "internal/task", "internal/tracing", "internal/webserver",
			"sink", "storage", "storage/observe", "storage/stores",
		},
		libraries: []string{"golang.org/x/term"},
	},

	"internal/actions":    {rooms: []string{"console", "internal/exit", "internal/human", "internal/progress", "internal/shell", "internal/task", "internal/units", "jobs", "jobs/kinds", "layout", "producer"}},
	"internal/webconsole": {rooms: []string{"chain", "console", "doctor", "feedstore", "internal/access", "internal/actions", "internal/app", "internal/exit", "internal/webserver", "readers", "server", "storage", "storage/observe", "storage/stores"}, libraries: []string{"github.com/spf13/pflag"}},

	// Jobs.
	"internal/jobdb":   {rooms: []string{"internal/pgerr", "internal/schema", "internal/suggest", "internal/tcp"}, libraries: []string{"github.com/riverqueue/river", "riverqueue.com/riverui"}},
	"internal/origins": {rooms: []string{"internal/backoff"}},
	"jobs":             {rooms: []string{"internal/jobdb", "internal/origins", "internal/suggest", "internal/tcp", "internal/units"}, libraries: []string{"github.com/robfig/cron/v3", "go.yaml.in/yaml/v3", "golang.org/x/sync"}},
	"jobs/watch":       {rooms: []string{"chain", "couchdb", "internal/backoff", "internal/credential", "internal/origins", "jobs", "kinto", "layout", "outbox", "server", "storage", "storage/postgres", "storage/stores"}, libraries: []string{"golang.org/x/sync"}},

	"jobs/kinds": {
		rooms: []string{
			"bridge", "bridge/couchdb/changes", "bridge/kinto", "consumer", "couchdb", "feed", "internal/credential", "internal/exit", "internal/human", "internal/locate", "internal/origins", "internal/pgerr", "internal/progress",
			"internal/shell", "internal/suggest", "internal/task", "jobs", "kinto", "layout", "outbox", "sink", "sink/sinks", "sink/sqlite", "storage", "storage/observe", "storage/stores", "verify",
		},
		libraries: []string{"github.com/spf13/pflag"},
	},

	"internal/jobscmd": {rooms: []string{
		"console", "internal/actions", "internal/app", "internal/cli", "internal/credential", "internal/exit", "internal/human", "internal/jobsready", "internal/metrics", "internal/suggest", "internal/units", "internal/webconsole", "internal/webserver", "jobs", "jobs/...", "server", "sink",
	}, libraries: []string{"github.com/spf13/pflag", "golang.org/x/sync"}},
	"jobs/api": {
		rooms:     []string{"internal/access", "internal/httpfield", "internal/jobsready", "internal/pgerr", "internal/problem", "internal/readiness", "internal/suggest", "jobs", "server", "sink"},
		libraries: []string{"github.com/go-chi/chi/v5"},
	},

	// On top are packages that may import everything and are imported by none.
	"bench":               top,
	"cmd/...":             top,
	"e2e":                 top,
	"e2e/console":         top,
	"internal/damagetest": top,
	"internal/lintest":    top,
	"examples/...":        top,
	"interop":             top,
	"interop/clients":     top,
}

var top = room{rooms: []string{"..."}, libraries: []string{"..."}}

// drivers holds libraries that have many dependencies or are for one kind of store, and names the only
// packages that may import each of them.
var drivers = map[string][]string{
	"modernc.org/sqlite":                  {"internal/jobdb", "sink/sqlite", "bench"},
	"zombiezen.com/go/sqlite":             {"bridge", "internal/against", "reconcile", "sink/sqlite", "snapshot/fold", "bench", "cmd/feedctl", "e2e", "examples/..."},
	"github.com/fsnotify/fsnotify":        {"storage/file"},
	"github.com/aws/aws-sdk-go-v2":        {"storage/s3", "bench"},
	"github.com/aws/smithy-go":            {"storage/s3"},
	"github.com/jackc/pgx/v5":             {"internal/jobdb", "storage/postgres", "internal/schema", "sink/internal/pgposition", "sink/pgxsink", "sink/postgres", "outbox", "internal/damagetest", "internal/pgtest", "bench", "cmd/feedctl", "e2e", "examples/..."},
	"github.com/prometheus/client_golang": {"server", "internal/app", "internal/metrics", "internal/metrics/catalog", "cmd/feedctl"},
	"github.com/spf13/cobra":              {"internal/app", "internal/cli", "internal/complete", "internal/jobscmd", "cmd/feedctl"},
	"github.com/knadh/koanf":              {"internal/cli"},
	"go.opentelemetry.io":                 {"internal/tracing", "e2e"},
}

// never names, for some packages, those that they must not depend on, not even through an allowed
// import.
var never = map[string][]string{
	"page":     {"feed", "layout", "snapshot", "storage", "net/http", "net"},
	"layout":   {"feed", "storage", "net/http"},
	"feed":     {"storage", "layout", "os/exec", "database/sql"},
	"snapshot": {"storage", "layout", "os/exec", "database/sql"},
	"digest":   {"storage", "layout", "os/exec", "database/sql"},
	"storage":  {"feed", "page", "layout", "snapshot", "net/http"},
	"consumer": {
		"chain", "input", "layout", "producer", "server", "sink", "storage", "verify", "database/sql",
		"modernc.org/sqlite", "zombiezen.com/go/sqlite", "github.com/fsnotify/fsnotify", "github.com/aws/aws-sdk-go-v2",
		"github.com/jackc/pgx/v5", "github.com/prometheus/client_golang", "github.com/go-chi/chi/v5",
	},
	"producer": {"consumer", "server", "sink", "verify", "github.com/aws/aws-sdk-go-v2", "github.com/jackc/pgx/v5", "modernc.org/sqlite"},
	"server":   {"consumer", "sink", "verify", "github.com/aws/aws-sdk-go-v2", "github.com/jackc/pgx/v5", "modernc.org/sqlite"},
	"verify":   {"consumer", "sink"}, // an oracle must not share the bugs of the code it checks
}

// A pkg is a package as described by the go command.
type pkg struct {
	ImportPath string
	Standard   bool
	Imports    []string // directly
	Deps       []string // directly and indirectly
}

// list returns all packages that the module needs, by import path. Packages that do not
// compile are included (-e).
func list(t *testing.T) map[string]pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-deps", "-json=ImportPath,Standard,Imports,Deps", module+"...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, stderr.Bytes())
	}
	all := make(map[string]pkg)
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[p.ImportPath] = p
	}
}

// own returns the path of a package within the module, and reports whether the package is in the module.
func own(importPath string) (string, bool) { return strings.CutPrefix(importPath, module) }

// fits reports whether a pattern, as in rooms, matches a package.
func fits(pattern, name string) bool {
	if before, ok := strings.CutSuffix(pattern, "..."); ok {
		return strings.HasPrefix(name+"/", before)
	}
	if before, ok := strings.CutSuffix(pattern, "/*"); ok {
		return path.Dir(name) == before
	}
	return pattern == name
}

func fitsAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return fits(p, name) })
}

// within reports whether an import path is that of a library, or of a package in it.
func within(library, importPath string) bool {
	return library == "..." || library == importPath || strings.HasPrefix(importPath, library+"/")
}

func roomOf(name string) (string, bool) {
	best := ""
	for pattern := range rooms {
		if fits(pattern, name) && len(pattern) > len(best) {
			best = pattern
		}
	}
	return best, best != ""
}

func TestImportsGoDown(t *testing.T) {
	all := list(t)
	for _, p := range all {
		name, ok := own(p.ImportPath)
		if !ok {
			continue
		}
		place, ok := roomOf(name)
		if !ok {
			t.Errorf("package %s is in no room: add it to the table of rooms", name)
			continue
		}
		for _, i := range p.Imports {
			below, ok := own(i)
			switch {
			case ok && !fitsAny(rooms[place].rooms, below) && !strings.HasPrefix(below, name+"/internal/"):
				t.Errorf("%s imports %s: not one of %v", name, below, rooms[place].rooms)
			case !ok && !all[i].Standard && !mayImport(place, name, i):
				t.Errorf("%s imports %s: not one of %v", name, i, rooms[place].libraries)
			}
		}
	}
}

// mayImport reports whether a package may import a library. A library in the table of drivers may be
// imported by the packages named there, whatever their rooms say, and by no others.
func mayImport(place, name, importPath string) bool {
	for library, users := range drivers {
		if within(library, importPath) {
			return fitsAny(users, name)
		}
	}
	return slices.ContainsFunc(rooms[place].libraries, func(l string) bool { return within(l, importPath) })
}

func TestNeverReached(t *testing.T) {
	all := list(t)
	for name, forbidden := range never {
		p, ok := all[module+name]
		if !ok {
			t.Errorf("package %s, in the table never, does not exist", name)
			continue
		}
		for _, dep := range p.Deps {
			for _, f := range forbidden {
				below, ok := own(dep)
				if ok && within(f, below) || within(f, dep) {
					t.Errorf("%s reaches %s", name, dep)
				}
			}
		}
	}
}

// TestPureIsPure: a program that uses only the model or the storage contract compiles almost no
// libraries.
func TestPureIsPure(t *testing.T) {
	all := list(t)
	libraries := map[string][]string{
		"page":     nil,
		"layout":   nil,
		"storage":  nil,
		"feed":     {"github.com/tomnomnom/linkheader"},
		"snapshot": {"github.com/tomnomnom/linkheader"},
	}
	for name, may := range libraries {
		for _, dep := range all[module+name].Deps {
			if _, ok := own(dep); ok || all[dep].Standard {
				continue
			}
			if !slices.ContainsFunc(may, func(l string) bool { return within(l, dep) }) {
				t.Errorf("%s reaches %s, which is not one of %v", name, dep, may)
			}
		}
	}
}

// storageAssertions returns the positions of type assertions and type switch cases for
// types of package storage.
func storageAssertions(set *token.FileSet, file *ast.File) (places []string) {
	local := ""
	for _, i := range file.Imports {
		if i.Path.Value == strconv.Quote(module+"storage") {
			if local = "storage"; i.Name != nil {
				local = i.Name.Name
			}
		}
	}
	check := func(e ast.Expr) {
		selector, ok := e.(*ast.SelectorExpr)
		if !ok {
			return
		}
		if x, ok := selector.X.(*ast.Ident); ok && local != "" && x.Name == local {
			places = append(places, set.Position(e.Pos()).String())
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeAssertExpr:
			check(n.Type)
		case *ast.TypeSwitchStmt:
			for _, clause := range n.Body.List {
				if clause, ok := clause.(*ast.CaseClause); ok {
					for _, e := range clause.List {
						check(e)
					}
				}
			}
		}
		return true
	})
	return places
}

// TestStorageAssertions tests storageAssertions.
func TestStorageAssertions(t *testing.T) {
	const text = `package p
import (
	s "github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
)
func f(store s.Store) {
	_, _ = store.(s.Watcher)
	_ = store.(*file.Store)
	switch store.(type) {
	case s.Clock, s.Counter:
	case *file.Store:
	}
	_, _ = s.As[s.Clock](store)
}`
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "f.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := storageAssertions(set, file); len(got) != 3 {
		t.Errorf("found %q, want 3 places", got)
	}
}

// TestTableHelpers tests the functions that interpret the patterns in the tables.
func TestTableHelpers(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"feed", "feed", true}, {"feed", "feed/x", false}, {"storage/*", "storage/file", true},
		{"storage/*", "storage", false}, {"storage/*", "storage/file/x", false},
		{"cmd/...", "cmd/feedctl", true}, {"cmd/...", "cmd/a/b", true}, {"cmd/...", "cmdx", false}, {"...", "page", true},
	} {
		if got := fits(c.pattern, c.name); got != c.want {
			t.Errorf("fits(%q, %q) = %v", c.pattern, c.name, got)
		}
	}
	if mayImport("consumer", "consumer", "modernc.org/sqlite") || mayImport("storage/*", "storage/memory", "github.com/fsnotify/fsnotify") {
		t.Error("any package may import a driver's library")
	}
	if !mayImport("storage/*", "storage/file", "github.com/fsnotify/fsnotify") || !mayImport("sink/*", "sink/sqlite", "zombiezen.com/go/sqlite/sqlitex") {
		t.Error("a driver may not import its library")
	}
	if place, _ := roomOf("storage/storagetest"); place != "storage/storagetest" {
		t.Errorf("storage/storagetest is in room %q", place)
	}
}
