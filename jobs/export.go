package jobs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// Export returns the documents of the jobs that a filter selects, ordered by namespace and name.
// Documents are as they were applied, even if the jobs have been paused or resumed since. Jobs of
// [Scheduler.RunOnce] are left out. After, Limit and Skip of the filter have no effect. The
// iteration ends with the first error.
//
// Documents have no secrets: credentials are references.
func (s *Scheduler) Export(ctx context.Context, f Filter) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		f.After, f.Limit, f.Skip, f.Persistent = "", MaxLimit, 0, true
		for {
			page, err := s.List(ctx, f)
			if err != nil {
				yield(Document{}, fmt.Errorf("export jobs: %w", err))
				return
			}
			for n := range page.Jobs {
				d, err := page.Jobs[n].applied()
				if !yield(d, err) || err != nil {
					return
				}
			}
			if f.After = page.Next; f.After == "" {
				return
			}
		}
	}
}

// applied returns the document as it was applied; the job may have been paused or resumed since.
func (j *Job) applied() (d Document, err error) {
	if err := json.Unmarshal([]byte(j.text), &d); err != nil {
		return d, fmt.Errorf("stored document of job %s: %w", j.Document.ID(), err)
	}
	return d, nil
}

// WriteYAML writes documents as a file that [Kinds.ReadFiles] reads. Consecutive documents with the
// same namespace form a YAML document.
func WriteYAML(w io.Writer, documents iter.Seq2[Document, error]) error {
	b := bufio.NewWriter(w)
	namespace := ""
	for d, err := range documents {
		if err != nil {
			return err
		}
		if d.Namespace != namespace {
			if namespace != "" {
				fmt.Fprint(b, "---\n")
			}
			namespace = d.Namespace
			fmt.Fprintf(b, "version: 1\nnamespace: %q\njobs:\n", namespace)
		}
		if err := writeItem(b, &d); err != nil {
			return fmt.Errorf("write job %s: %w", d.ID(), err)
		}
	}
	if namespace == "" {
		fmt.Fprint(b, "version: 1\njobs: []\n")
	}
	return b.Flush()
}

// writeItem writes a document as an item of a list, without its namespace.
func writeItem(w io.Writer, d *Document) error {
	r := &reader{}
	job := r.json([]byte(d.canonical()))
	if err := r.invalid(); err != nil {
		return err
	}
	job.Content = job.Content[2:] // the first field is the namespace
	quote(job)
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode([]*yaml.Node{job}); err != nil {
		return err
	}
	if err := e.Close(); err != nil {
		return err
	}
	_, err := b.WriteTo(w)
	return err
}

// quote marks strings with line breaks and other unprintable characters for quoting, since the YAML
// library would write them on several lines.
func quote(n *yaml.Node) {
	if n.Tag == "!!str" && strings.ContainsFunc(n.Value, func(r rune) bool { return !unicode.IsPrint(r) }) {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, inner := range n.Content {
		quote(inner)
	}
}

// WriteJSON writes documents in the form that [ParseJobs] reads.
func WriteJSON(w io.Writer, documents iter.Seq2[Document, error]) error {
	b := bufio.NewWriter(w)
	fmt.Fprint(b, `{"version": 1, "jobs": [`)
	separator := "\n"
	for d, err := range documents {
		if err != nil {
			return err
		}
		fmt.Fprint(b, separator, d.canonical())
		separator = ",\n"
	}
	fmt.Fprint(b, "\n]}\n")
	return b.Flush()
}
