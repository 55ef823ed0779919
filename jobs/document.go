package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Document is a job as its user describes it.
type Document struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Kind holds the words of the command that the job runs, such as "consume" or "bridge couchdb".
	Kind   string `json:"kind"`
	Source string `json:"source"`
	Target string `json:"target,omitempty"`
	// Credentials holds references by use ("source", "target"): env:NAME or file:PATH. The nodes
	// that run the job resolve them.
	Credentials map[string]string `json:"credentials,omitempty"`
	// Follow makes the job run until it is removed. Otherwise it ends when it has caught up.
	Follow bool `json:"follow,omitempty"`
	// Schedule says when a job that does not follow runs again: five fields as in crontab(5), in UTC. A run that is
	// not over at the next time delays the next run.
	Schedule string `json:"schedule,omitempty"`
	// After holds names of jobs of the namespace that are to run first. It only affects the order in
	// which jobs run for the first time.
	After []string `json:"after,omitempty"`
	// Options are flags of the command, without "--".
	Options map[string]Values `json:"options,omitempty"`
	// Labels are for selecting jobs; they have no effect on where a job runs.
	Labels    map[string]string `json:"labels,omitempty"`
	Placement Placement         `json:"placement,omitzero"`
	Paused    bool              `json:"paused,omitempty"`
	// Metrics gives the job, if it follows, metrics of its own, besides those of its namespace.
	Metrics bool `json:"metrics,omitempty"`
	// Backoff overrides the backoff in the settings, if not zero.
	Backoff Backoff `json:"backoff,omitzero"`
}

// Values are the values of an option; most options have one.
type Values []string

// Backoff says how long a job waits after consecutive errors: Min after the first, twice as long after each further
// one, up to Max.
type Backoff struct {
	Min time.Duration `json:"min,omitempty"`
	Max time.Duration `json:"max,omitempty"`
}

// ID returns NAMESPACE/NAME, which identifies the job.
func (d *Document) ID() string { return d.Namespace + "/" + d.Name }

// A Problem is a mistake in a document.
type Problem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`  // 1 is the first; 0 if it is not from a file
	Job     string `json:"job,omitempty"`   // the ID of the job
	Field   string `json:"field,omitempty"` // "options.batch-bytes"
	Message string `json:"message"`
	// document is the number of the document, from 1, among those that are applied together; 0 if
	// Job identifies it. If several documents have one ID, other is the number of the first.
	document, other int
}

// problem returns a problem of the n-th document. If the document has no name, Job is empty.
func (d *Document) problem(n int, field, format string, args ...any) Problem {
	p := Problem{Field: field, Message: fmt.Sprintf(format, args...), document: n + 1}
	if d.Name != "" {
		p.Job = d.ID()
	}
	return p
}

// place returns a name for a line of a file, or of text that is not from a file.
func place(file string, line int) string {
	if file == "" {
		return fmt.Sprintf("line %d", line)
	}
	return fmt.Sprintf("%s:%d", file, line)
}

func (p Problem) String() string {
	var b strings.Builder
	if p.Line > 0 {
		b.WriteString(place(p.File, p.Line) + ": ")
	}
	if p.Job != "" {
		fmt.Fprintf(&b, "job %q: ", p.Job)
	}
	if p.Field != "" {
		b.WriteString(p.Field + ": ")
	}
	return b.String() + p.Message
}

// An InvalidError lists all problems of documents. It matches [ErrInvalid].
type InvalidError []Problem

func (p InvalidError) Error() string {
	lines := make([]string, len(p))
	for n := range p {
		lines[n] = p[n].String()
	}
	return strings.Join(lines, "\n")
}

// Is reports whether target is [ErrInvalid].
func (p InvalidError) Is(target error) bool { return target == ErrInvalid }

// A Kind implements the jobs of one kind. Its methods may be called concurrently.
type Kind interface {
	// Check returns the problems of a document, by field. It does not use the network.
	Check(d *Document) []Problem
	// Identify returns what the document refers to. It does not use the network, and is only called with documents
	// whose source and target have no problems. If other fields have problems, the results that depend on them are
	// empty.
	Identify(d *Document) Identity
	// Run runs the job of the session until there is nothing left to do, or ctx ends.
	// An error that matches [ErrRejected] will not pass on its own; after any other error, the
	// job is tried again later. [ErrDuplicate], [ErrFindings] and [*OriginError] are not errors
	// of the job. An error with a method Hint() string says what the user can do about it.
	Run(ctx context.Context, s *Session) error
}

// An Identity identifies the work of a job, which no other job may do.
type Identity struct {
	// Work identifies everything that affects the result of the job: source, target and selection,
	// but neither credentials nor limits. Only an invalid document may have an empty Work.
	Work string
	// Target identifies what the job writes to, if two jobs must not both write to it.
	Target string
	// SourceOrigin and TargetOrigin identify the servers that the job uses, as
	// https://HOST:PORT. They are empty for local files.
	SourceOrigin, TargetOrigin string
	// Local reports whether the job uses files of a node, to which it must be pinned.
	Local bool
	// Watch is what a job that follows waits for when it has caught up. If it is zero, the job
	// runs again from time to time.
	Watch Watch
}

// A Watch is something on a server whose changes are a reason for a job to run.
type Watch struct {
	// Type of the server: "couchdb", "feedctl", "kinto", "store" or "outbox".
	Type string
	// Server is a URL, without credentials: of a CouchDB or Kinto server, a feed server, a store or
	// a database with an outbox.
	Server string
	// Name of the database, feed or collection (BUCKET/COLLECTION) on the server.
	Name string
	// Credential is the reference in [Document.Credentials] that is used for the server.
	Credential string
	// Local reports whether the server consists of files of the node to which the job is pinned.
	Local bool
}

// Kinds holds all kinds of jobs, by name.
type Kinds map[string]Kind

var (
	validName  = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$`)
	validLabel = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,62}[A-Za-z0-9])?$`)
)

const nameRule = "want up to 64 of a-z 0-9 . _ -, a letter or digit first and last"

// Check returns the problems of documents that are to be applied together, by document. The jobs
// named in After may already be stored, so they need not be among the documents.
func (k Kinds) Check(documents []Document) []Problem {
	_, all := k.inspect(documents)
	return append(all, cycles(documents, func(string) bool { return true })...)
}

// inspect is like Check, but ignores the order in which jobs start. It also returns the identity of
// each document, which is nil if the source or target is invalid.
func (k Kinds) inspect(documents []Document) (identities []*Identity, all []Problem) {
	identities = make([]*Identity, len(documents))
	u := users{names: map[string]int{}, work: map[string]*Document{}, target: map[string]*Document{}}
	for n := range documents {
		d := &documents[n]
		identity, problems := k.checkOne(d)
		for _, p := range problems {
			found := d.problem(n, p.Field, "%s", p.Message)
			all = append(all, found)
		}
		identities[n] = identity
		all = append(all, u.add(n, d, identity)...)
	}
	return identities, all
}

// users holds the documents by name, by work and by target.
type users struct {
	names        map[string]int
	work, target map[string]*Document
}

// add adds the n-th document. It returns problems if the document has the name of another, or does
// the same work.
func (u *users) add(n int, d *Document, i *Identity) (problems []Problem) {
	if first, ok := u.names[d.ID()]; ok && d.Name != "" {
		p := d.problem(n, "name", "another job has this name")
		p.other = first + 1
		problems = append(problems, p)
	} else {
		u.names[d.ID()] = n
	}
	if i == nil {
		return problems
	}
	// If the names are the same, the duplicate has already been reported.
	differs := func(other *Document) bool { return d.Name == "" || other.ID() != d.ID() }
	if other := u.work[i.Work]; other != nil && i.Work != "" {
		if differs(other) {
			problems = append(problems, d.problem(n, "source", "%s does the same", other.title()))
		}
	} else if other := u.target[i.Target]; other != nil && i.Target != "" && differs(other) {
		problems = append(problems, d.problem(n, "target", "%s writes to the same target", other.title()))
	}
	u.work[i.Work], u.target[i.Target] = d, d
	return problems
}

// ValidNamespace reports whether name is a valid name of a namespace.
func ValidNamespace(name string) bool { return validName.MatchString(name) }

// title returns the name of a job for use in a message.
func (d *Document) title() string {
	if d.Name == "" {
		return "another job"
	}
	return fmt.Sprintf("job %q", d.ID())
}

// checkOne checks a document on its own, and returns its identity, or nil, and its problems.
func (k Kinds) checkOne(d *Document) (identity *Identity, problems []Problem) {
	add := func(field, format string, args ...any) {
		problems = append(problems, Problem{Field: field, Message: fmt.Sprintf(format, args...)})
	}
	if !validName.MatchString(d.Namespace) {
		add("namespace", "invalid name %q: %s", d.Namespace, nameRule)
	}
	if d.Name == "" {
		add("name", "the job has no name")
	} else if !validName.MatchString(d.Name) {
		add("name", "invalid name %q: %s", d.Name, nameRule)
	}
	for name, value := range d.Labels {
		if !validLabel.MatchString(name) || value != "" && !validLabel.MatchString(value) {
			add("labels", "invalid label %s=%s: want up to 64 of A-Z a-z 0-9 . _ / -", name, value)
		}
	}
	for use, reference := range d.Credentials {
		if use != "source" && use != "target" {
			add("credentials."+use, "want source or target: what the credential is for")
		}
		if kind, name, _ := strings.Cut(reference, ":"); name == "" || kind != "env" && kind != "file" {
			add("credentials."+use, "want env:NAME or file:PATH, a reference instead of the credential")
		}
	}
	for field, value := range map[string]string{"source": d.Source, "target": d.Target, "placement.node": d.Placement.Node, "credentials": d.Credentials["source"] + d.Credentials["target"]} {
		if strings.ContainsRune(value, 0) { // PostgreSQL cannot store NUL
			add(field, "it contains a NUL character")
		}
	}
	if d.Follow && d.Schedule != "" {
		add("schedule", "a job that follows always runs: remove schedule or follow")
	} else if d.Schedule != "" {
		if _, err := nextRun(d.Schedule, time.Now()); err != nil {
			add("schedule", "%v", err)
		}
	}
	if b := d.Backoff; b.Min < 0 || b.Max < 0 || b.Max > 0 && b.Min > b.Max {
		add("backoff", "min %v and max %v: want durations, min not above max", b.Min, b.Max)
	}
	for _, problem := range CheckNodeLabels(d.Placement.Labels) {
		add("placement.labels", "%s", problem)
	}
	kind, ok := k[d.Kind]
	if !ok {
		add("kind", "unknown kind %q: want one of %s", d.Kind, strings.Join(slices.Sorted(maps.Keys(k)), ", "))
		return nil, problems
	}
	problems = append(problems, kind.Check(d)...)
	if slices.ContainsFunc(problems, func(p Problem) bool { return p.Field == "source" || p.Field == "target" || p.Field == "placement.node" }) {
		return nil, problems
	}
	i := kind.Identify(d)
	if i.Local && d.Placement.Node == "" {
		add("placement.node", "the job uses local files: name the node that has them")
	}
	return &i, problems
}

// ranks returns, by ID, the length of the longest chain of jobs that are to run before a job.
func ranks(documents []Document) map[string]int64 {
	after := map[string][]string{}
	for n := range documents {
		for _, name := range documents[n].After {
			after[documents[n].ID()] = append(after[documents[n].ID()], documents[n].Namespace+"/"+name)
		}
	}
	ranks := map[string]int64{}
	var rank func(id string) int64
	rank = func(id string) int64 {
		if r, ok := ranks[id]; ok {
			return r
		}
		r := int64(0)
		for _, before := range after[id] {
			r = max(r, rank(before)+1)
		}
		ranks[id] = r
		return r
	}
	for n := range documents {
		rank(documents[n].ID())
	}
	return ranks
}

// cycles returns a problem for each cycle of jobs that wait for each other. The problem is reported at a job in the
// cycle for which the given function returns true.
func cycles(documents []Document, at func(id string) bool) (problems []Problem) {
	after := map[string][]string{}
	for n := range documents {
		d := &documents[n]
		for _, name := range d.After {
			after[d.ID()] = append(after[d.ID()], d.Namespace+"/"+name)
		}
	}
	const visiting, visited = 1, 2
	state := map[string]int{}
	var visit func(id string, path []string)
	visit = func(id string, path []string) {
		switch state[id] {
		case visited:
			return
		case visiting:
			circle := path[slices.Index(path, id):]
			first := max(slices.IndexFunc(circle, at), 0)
			circle = slices.Concat(circle[first:], circle[:first+1])
			problems = append(problems, Problem{Job: circle[0], Field: "after", Message: "the job waits for itself: " + strings.Join(circle, " → ")})
			return
		}
		state[id] = visiting
		for _, next := range after[id] {
			visit(next, append(path, id))
		}
		state[id] = visited
	}
	for n := range documents {
		visit(documents[n].ID(), nil)
	}
	return problems
}

// canonical returns the document in the form in which it is stored and compared.
func (d *Document) canonical() string {
	text, err := json.Marshal(d) // sorts the keys of maps
	if err != nil {
		panic(err) // impossible: a document has only strings, numbers and maps of these
	}
	return string(text)
}
