// Package kinds implements the kinds of jobs: the commands of feedctl that a scheduler can run.
//
// The kind of a job is the name of a command; the source and target of the job are the command's
// arguments, and its options are the flags, with the same names and checks. [Command] returns the
// command line of a job.
package kinds

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/jobs"
)

// All returns all kinds. Their runs share stores and databases.
func All() jobs.Kinds {
	all, shared := jobs.Kinds{}, &task.Shared{}
	for name, k := range known {
		k.shared = shared
		all[name] = &k
	}
	return all
}

// A kind implements [jobs.Kind] with tasks of package task.
type kind struct {
	shared *task.Shared
	// source and target say how the source and the target of a document are parsed.
	source, target side
	// stored is "source" or "target", whichever is a store, or "" if neither is.
	stored string
	// follows reports whether jobs of the kind can follow.
	follows bool
	// neutral lists the options that do not affect the result.
	neutral []string
	// exclusive, if set, returns the name of the thing that only one job may write, or "" if an option
	// that determines it is invalid.
	exclusive func(p *parsed) string
	// new returns a task that has not been configured yet.
	new func() runner
	// arguments returns the words of the command line before the options, and the variables that it
	// needs.
	arguments func(d *jobs.Document) (words, variables []string)
}

// A side describes what the jobs of one kind have as their source, or as their target. If parse is
// nil, they have none.
type side struct {
	parse    func(name string) (place, error)
	optional bool
	missing  string // what to write there
}

// A parsed holds a document and the results of parsing it.
type parsed struct {
	*jobs.Document
	source, target place
	flags          *pflag.FlagSet
	runner         runner
}

// parse parses a document, and returns all its problems.
func (k *kind) parse(d *jobs.Document) (*parsed, []jobs.Problem) {
	p := &parsed{Document: d, runner: k.new(), flags: pflag.NewFlagSet(d.Kind, pflag.ContinueOnError)}
	p.runner.Flags(p.flags)
	problems := parseOptions(p.flags, d)
	add := func(field string, err error) {
		if err != nil {
			problems = append(problems, jobs.Problem{Field: field, Message: sideError(err)})
		}
	}
	var err error
	p.source, err = k.source.place(d.Source)
	add("source", err)
	p.target, err = k.target.place(d.Target)
	add("target", err)
	add("credentials.source", checkCredential(d.Credentials["source"], p.source))
	add("credentials.target", checkCredential(d.Credentials["target"], p.target))
	if d.Follow && !k.follows {
		problems = append(problems, jobs.Problem{Field: "follow", Message: "a job of kind " + d.Kind + " does not follow: use a schedule to repeat it"})
	}
	p.runner.Arguments(d, credentials{})
	return p, k.checkTask(p.runner, problems)
}

// checkTask adds the problems that the task reports, unless they only follow from the given problems: a
// flag that could not be set has its default value.
func (k *kind) checkTask(r runner, problems []jobs.Problem) []jobs.Problem {
	known := map[string]bool{}
	for _, p := range problems {
		known[p.Field] = true
	}
	for _, err := range task.Errors(r.Check()) {
		fields := k.fieldsOf(err)
		if !slices.ContainsFunc(fields, func(field string) bool { return known[field] }) {
			problems = append(problems, jobs.Problem{Field: fields[0], Message: sideError(err)})
		}
	}
	return problems
}

// TakesSource reports whether jobs of the kind have a source.
func (k *kind) TakesSource() bool { return k.source.parse != nil }

func (s *side) place(name string) (place, error) {
	switch {
	case s.parse == nil && name != "":
		return place{}, fmt.Errorf("this kind of job has none: %s", s.missing)
	case s.parse == nil, name == "" && s.optional:
		return place{}, nil
	case name == "":
		return place{}, fmt.Errorf("missing: %s", s.missing)
	}
	return s.parse(name)
}

// Check implements [jobs.Kind].
func (k *kind) Check(d *jobs.Document) []jobs.Problem {
	_, problems := k.parse(d)
	return problems
}

// Identify implements [jobs.Kind].
func (k *kind) Identify(d *jobs.Document) jobs.Identity {
	p, problems := k.parse(d)
	i := jobs.Identity{SourceOrigin: p.source.origin, TargetOrigin: p.target.origin, Local: p.source.local || p.target.local}
	if state := p.flags.Lookup("state"); state != nil && state.Changed {
		i.Local = true // the source is a file that package verify reads
	}
	node := ""
	if i.Local {
		node = d.Placement.Node // the same path on another node is another file
	}
	what, err := json.Marshal([]any{d.Kind, node, p.source.id, p.target.id, effective(p.flags, k.neutral)})
	if err != nil {
		panic(err) // cannot happen: there are only strings
	}
	if sum := sha256.Sum256(what); len(problems) == 0 { // if there are problems, the options are not known
		i.Work = hex.EncodeToString(sum[:16])
	}
	if k.exclusive != nil {
		if writes := k.exclusive(p); writes != "" {
			i.Target = node + " " + writes
		}
	}
	if d.Follow {
		i.Watch = p.source.watch
		i.Watch.Credential = d.Credentials["source"]
		switch i.Watch.Type {
		case "":
			i.Watch = jobs.Watch{}
		case "kinto":
			if k, ok := p.runner.(*kintoRun); ok && k.Window > watchedWindow {
				i.Watch = jobs.Watch{}
			}
		case "outbox":
			i.Watch.Name = first(d.Options["feed"])
		}
	}
	return i
}

// credentials holds the credentials of a job, or where the node finds them.
type credentials struct {
	source, target                 credential.Source
	sourcePassword, targetPassword string
}
