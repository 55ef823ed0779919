package jobs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/feedctl/feedctl/internal/suggest"
)

// maxFile is the maximum size of a file of jobs, in bytes; 10,000 jobs take about 3 MiB.
const maxFile = 64 << 20

// ReadFiles reads jobs from YAML files, or from all files in a directory that end with .yaml
// or .yml; "-" is standard input. It returns all their problems at once, as an [InvalidError] with
// files and lines.
func (k Kinds) ReadFiles(paths ...string) ([]Document, error) {
	f, err := k.Read(ReadOptions{Stdin: os.Stdin}, paths...)
	if err != nil {
		return nil, err
	}
	return f.Documents, nil
}

// Files holds the jobs that were read from files.
type Files struct {
	Documents []Document
	// Namespaces are the namespaces of the files, including files without jobs.
	Namespaces []string
	reader     *reader
}

// Locate adds to an [InvalidError] of [Scheduler.Apply] the files and lines of the fields, and those problems of the
// files that do not belong to a document.
func (f *Files) Locate(err error) error {
	problems, ok := errors.AsType[InvalidError](err)
	if !ok {
		return err
	}
	return f.reader.locateAll(problems)
}

// ReadOptions holds the options of [Kinds.Read].
type ReadOptions struct {
	Stdin io.Reader // is read for "-"
	// Node is the node of jobs that use local files and name no node. If it is empty, such jobs are
	// invalid.
	Node string
}

// Read is like [Kinds.ReadFiles], with options. Along with an [InvalidError], it returns what it
// could read: applying that with [ApplyOptions.DryRun] reveals the conflicts with stored jobs, too.
func (k Kinds) Read(o ReadOptions, paths ...string) (*Files, error) {
	var files []string
	for _, path := range paths {
		found, err := expand(path)
		if err != nil {
			return nil, fmt.Errorf("read jobs: %w", err)
		}
		files = append(files, found...)
	}
	r := &reader{}
	for _, name := range files {
		text, err := readFile(o.Stdin, name)
		if err != nil {
			return nil, fmt.Errorf("read jobs: %w", err)
		}
		r.read(name, text)
	}
	if o.Node != "" {
		k.pin(r.documents, o.Node)
	}
	found := &Files{r.documents, r.namespaces, r}
	if problems := r.locateAll(k.Check(r.documents)); len(problems) > 0 {
		return found, problems
	}
	return found, nil
}

// pin pins jobs that use local files to a node.
func (k Kinds) pin(documents []Document, node string) {
	for n := range documents {
		d := &documents[n]
		if d.Placement.Node != "" {
			continue
		}
		if identity, _ := k.checkOne(d); identity != nil && identity.Local {
			d.Placement.Node = node
		}
	}
}

// sort sorts problems by file and line.
func (p InvalidError) sort() {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
}

// expand returns the files of a directory, or the path itself. Files may be links, and so may be
// the directory. Names that begin with a dot are left out: in a Kubernetes volume, ..data contains
// the files to which the visible names link.
func expand(path string) ([]string, error) {
	if path == "-" {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	var files []string
	err = fs.WalkDir(os.DirFS(path), ".", func(name string, entry fs.DirEntry, err error) error {
		hidden := name != "." && strings.HasPrefix(entry.Name(), ".")
		switch ext := filepath.Ext(name); {
		case err != nil:
			return err
		case hidden && entry.IsDir():
			return fs.SkipDir
		case !hidden && !entry.IsDir() && (ext == ".yaml" || ext == ".yml"):
			files = append(files, filepath.Join(path, filepath.FromSlash(name)))
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s has no files that end with .yaml or .yml", path)
	}
	return files, err
}

func readFile(stdin io.Reader, name string) ([]byte, error) {
	in := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than %d MiB", name, maxFile>>20)
	}
	return text, err
}

// A reader gathers the documents and problems of several files.
type reader struct {
	documents  []Document
	places     []source // the places of the documents
	namespaces []string
	problems   InvalidError // problems that do not belong to a document
	file       string
}

// A source says where a document was read.
type source struct {
	file  string
	lines map[string]int // by field; that of "" is the first line of the document
}

// locateAll returns the given problems and those of the files, in order, with the files and lines of their fields.
func (r *reader) locateAll(problems []Problem) InvalidError {
	located := slices.Clone(r.problems)
	for _, p := range problems {
		located = append(located, r.locate(p))
	}
	located.sort()
	return located
}

// locate sets the file and line of a problem to those of its field.
func (r *reader) locate(p Problem) Problem {
	if p.document == 0 {
		p.document = 1 + slices.IndexFunc(r.documents, func(d Document) bool { return d.ID() == p.Job })
	}
	if p.document == 0 {
		return p
	}
	if p.other > 0 {
		first := r.places[p.other-1]
		p.Message += ", at " + place(first.file, first.lines[p.Field])
	}
	file, lines := r.places[p.document-1].file, r.places[p.document-1].lines
	p.File, p.Line = file, lines[""]
	for field := p.Field; field != ""; {
		if line, ok := lines[field]; ok {
			p.Line = line
			break
		}
		field = field[:max(strings.LastIndex(field, "."), 0)]
	}
	return p
}

func (r *reader) add(n *yaml.Node, field, format string, args ...any) {
	r.problems = append(r.problems, Problem{File: r.file, Line: n.Line, Field: field, Message: fmt.Sprintf(format, args...)})
}

// read reads a file, which may hold several YAML documents.
func (r *reader) read(name string, text []byte) {
	r.file = name
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var root yaml.Node
		if err := d.Decode(&root); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			r.problems = append(r.problems, syntaxProblem(name, err))
			return
		}
		// A document without content follows a "---" at the end of a file.
		if len(root.Content) == 1 && root.Content[0].Tag != "!!null" {
			r.collection(root.Content[0])
		}
	}
}

// syntaxProblem turns an error of the YAML library into a problem with a line.
func syntaxProblem(file string, err error) Problem {
	p := Problem{File: file, Line: 1, Message: strings.TrimPrefix(err.Error(), "yaml: ")}
	if _, scanErr := fmt.Sscanf(p.Message, "line %d:", &p.Line); scanErr == nil {
		_, p.Message, _ = strings.Cut(p.Message, ": ")
	}
	return p
}

// collection reads "version", "namespace", "defaults" and "jobs".
func (r *reader) collection(n *yaml.Node) {
	namespace, defaults := "default", Document{}
	var jobs *yaml.Node
	version := ""
	r.fields(n, "", map[string]func(*yaml.Node){
		"version":   r.text("version", &version),
		"namespace": r.text("namespace", &namespace),
		"defaults":  func(v *yaml.Node) { r.document(v, "defaults", &defaults, nil) },
		"jobs":      func(v *yaml.Node) { jobs = v },
	})
	r.namespaces = append(r.namespaces, namespace)
	if version != "1" {
		r.add(n, "version", "want \"version: 1\" at the beginning of the file")
	}
	if jobs == nil {
		r.add(n, "jobs", "the file has no jobs")
		return
	}
	if jobs.Kind != yaml.SequenceNode {
		r.add(jobs, "jobs", "want a list of jobs, each beginning with \"- name:\"")
		return
	}
	for _, job := range jobs.Content {
		d := defaults
		d.Namespace = namespace
		d.Options, d.Labels = clone(defaults.Options), clone(defaults.Labels)
		lines := map[string]int{"": job.Line}
		r.document(job, "", &d, lines)
		if job.Kind != yaml.MappingNode {
			continue
		}
		r.places = append(r.places, source{r.file, lines})
		r.documents = append(r.documents, d)
	}
}

func clone[V any](m map[string]V) map[string]V {
	c := make(map[string]V, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

// document reads a job, or the defaults of jobs. The line numbers of its fields are added to lines, unless that is nil.
func (r *reader) document(n *yaml.Node, field string, d *Document, lines map[string]int) {
	at := func(name string) string {
		if field == "" {
			return name
		}
		return field + "." + name
	}
	known := map[string]func(*yaml.Node){
		"kind":        r.text(at("kind"), &d.Kind),
		"source":      r.text(at("source"), &d.Source),
		"target":      r.text(at("target"), &d.Target),
		"credentials": r.texts(at("credentials"), &d.Credentials),
		"follow":      r.bool(at("follow"), &d.Follow),
		"schedule":    r.text(at("schedule"), &d.Schedule),
		"options":     r.options(at("options"), &d.Options),
		"labels":      r.texts(at("labels"), &d.Labels),
		"paused":      r.bool(at("paused"), &d.Paused),
		"metrics":     r.bool(at("metrics"), &d.Metrics),
		"placement": func(v *yaml.Node) {
			r.fields(v, at("placement"), map[string]func(*yaml.Node){
				"node":   r.text(at("placement.node"), &d.Placement.Node),
				"labels": r.list(at("placement.labels"), &d.Placement.Labels),
			})
		},
		"backoff": func(v *yaml.Node) {
			r.fields(v, at("backoff"), map[string]func(*yaml.Node){
				"min": r.duration(at("backoff.min"), &d.Backoff.Min),
				"max": r.duration(at("backoff.max"), &d.Backoff.Max),
			})
		},
	}
	if field == "" {
		known["namespace"] = r.text("namespace", &d.Namespace)
		known["name"] = r.text("name", &d.Name)
		known["after"] = r.list("after", &d.After)
	}
	if lines != nil {
		note(n, "", lines)
	}
	r.fields(n, field, known)
}

// note adds the line numbers of all fields of a mapping to lines.
func note(n *yaml.Node, prefix string, lines map[string]int) {
	if n.Kind != yaml.MappingNode {
		return
	}
	for k := 0; k+1 < len(n.Content); k += 2 {
		name := prefix + n.Content[k].Value
		lines[name] = n.Content[k].Line
		note(n.Content[k+1], name+".", lines)
	}
}

// fields calls, for each field of a mapping, the function for the field's name in known.
func (r *reader) fields(n *yaml.Node, field string, known map[string]func(*yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.add(n, field, "want fields, such as \"name: value\"")
		return
	}
	r.keys(n, field)
	seen := map[string]bool{}
	for k := 0; k+1 < len(n.Content); k += 2 {
		key, value := n.Content[k], n.Content[k+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		read, ok := known[key.Value]
		switch {
		case !ok:
			var names []string
			for name := range known {
				names = append(names, name)
			}
			slices.Sort(names)
			r.add(key, field, "unknown field %q%s", key.Value, suggest.DidYouMean(key.Value, names, ""))
		case !seen[key.Value]:
			seen[key.Value] = true
			read(value)
		}
	}
}

// keys adds a problem for each key that occurs more than once in a mapping.
func (r *reader) keys(n *yaml.Node, field string) {
	lines := map[string]int{}
	for k := 0; k+1 < len(n.Content); k += 2 {
		key := n.Content[k]
		if line, ok := lines[key.Value]; ok {
			r.add(key, field, "%q appears twice: also at line %d", key.Value, line)
			continue
		}
		lines[key.Value] = key.Line
	}
}

func (r *reader) text(field string, into *string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			r.add(n, field, "want a string")
			return
		}
		*into = n.Value
	}
}

func (r *reader) bool(field string, into *bool) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.Decode(into) != nil {
			r.add(n, field, "want true or false")
		}
	}
}

func (r *reader) duration(field string, into *time.Duration) func(*yaml.Node) {
	return func(n *yaml.Node) {
		d, err := time.ParseDuration(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil {
			r.add(n, field, "want a duration, such as 30s or 1h")
			return
		}
		*into = d
	}
}

func (r *reader) list(field string, into *[]string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.SequenceNode || slices.ContainsFunc(n.Content, func(v *yaml.Node) bool { return v.Kind != yaml.ScalarNode }) {
			r.add(n, field, "want a list, such as [a, b]")
			return
		}
		*into = nil
		for _, v := range n.Content {
			*into = append(*into, v.Value)
		}
	}
}

// texts returns a function that reads a mapping of strings, and adds its entries to *into.
func (r *reader) texts(field string, into *map[string]string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.MappingNode {
			r.add(n, field, "want fields, such as \"name: value\"")
			return
		}
		r.keys(n, field)
		all := clone(*into)
		for k := 0; k+1 < len(n.Content); k += 2 {
			var value string
			r.text(field+"."+n.Content[k].Value, &value)(n.Content[k+1])
			all[n.Content[k].Value] = value
		}
		*into = all
	}
}

// options returns a function that reads flags: each is a string, number or boolean, or a list of
// these.
func (r *reader) options(field string, into *map[string]Values) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.MappingNode {
			r.add(n, field, "want fields, such as \"name: value\"")
			return
		}
		r.keys(n, field)
		all := clone(*into)
		for k := 0; k+1 < len(n.Content); k += 2 {
			name, value := n.Content[k].Value, n.Content[k+1]
			var values []string
			if value.Kind == yaml.SequenceNode {
				r.list(field+"."+name, &values)(value)
			} else {
				var text string
				r.text(field+"."+name, &text)(value)
				values = []string{text}
			}
			all[name] = values
		}
		*into = all
	}
}
