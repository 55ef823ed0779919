package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"go.yaml.in/yaml/v3"
)

// ParseJob reads one job from JSON, with the fields that a job in a file has. It returns all problems as an [InvalidError],
// together with the rest of the job.
func ParseJob(text []byte) (Document, error) {
	r := &reader{}
	var d Document
	if n := r.json(text); n != nil {
		r.document(n, "", &d, nil)
	}
	return d, r.invalid()
}

// ParseJobs reads many jobs from JSON, in the form of a file of jobs. It returns all problems as an [InvalidError],
// together with the rest of the jobs.
func ParseJobs(text []byte) ([]Document, error) {
	r := &reader{}
	if n := r.json(text); n != nil {
		r.collection(n)
	}
	return r.documents, r.invalid()
}

func (r *reader) invalid() error {
	if len(r.problems) == 0 {
		return nil
	}
	return r.problems
}

// Limits of JSON that is read as jobs.
const (
	maxValues = 1 << 20 // 10,000 jobs have about 400,000 values
	maxDepth  = 8
)

// A jsonReader reads JSON into the nodes of the YAML library.
type jsonReader struct {
	decoder *json.Decoder
	text    []byte
	counted int64 // number of bytes in which lines have been counted
	line    int
	values  int
}

// json returns the value of a JSON text. If it returns nil, it has added a problem.
func (r *reader) json(text []byte) *yaml.Node {
	j := &jsonReader{decoder: json.NewDecoder(bytes.NewReader(text)), text: text, line: 1}
	j.decoder.UseNumber()
	n, err := j.value(0)
	if err == nil {
		if _, extra := j.decoder.Token(); !errors.Is(extra, io.EOF) {
			err = errors.New("want one value")
		}
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		r.problems = append(r.problems, Problem{Line: j.count(), Message: fmt.Sprintf("invalid JSON: %v", err)})
		return nil
	}
	return n
}

// count returns the number of the line with the last token.
func (j *jsonReader) count() int {
	at := j.decoder.InputOffset()
	j.line += bytes.Count(j.text[j.counted:at], []byte("\n"))
	j.counted = at
	return j.line
}

func (j *jsonReader) value(depth int) (*yaml.Node, error) {
	token, err := j.decoder.Token()
	if err != nil {
		return nil, err
	}
	if j.values++; j.values > maxValues {
		return nil, fmt.Errorf("more than %d values", maxValues)
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("values are nested more than %d deep", maxDepth)
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: j.count()}
	switch token := token.(type) {
	case json.Delim:
		n.Kind = yaml.MappingNode
		if token == '[' {
			n.Kind = yaml.SequenceNode
		}
		for j.decoder.More() {
			inner, err := j.value(depth + 1)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, inner)
		}
		_, err = j.decoder.Token()
	case string:
		n.Tag, n.Value = "!!str", token
	case json.Number:
		n.Tag, n.Value = "!!float", token.String()
	case bool:
		n.Tag, n.Value = "!!bool", fmt.Sprint(token)
	case nil:
		n.Tag = "!!null"
	}
	return n, err
}

// MarshalJSON implements [json.Marshaler]. A single value is a string, several are a list.
func (v Values) MarshalJSON() ([]byte, error) {
	if len(v) == 1 {
		return json.Marshal(v[0])
	}
	return json.Marshal(append([]string{}, v...)) // not null
}

// UnmarshalJSON implements [json.Unmarshaler].
func (v *Values) UnmarshalJSON(text []byte) error {
	if len(text) == 0 || text[0] != '"' {
		return json.Unmarshal(text, (*[]string)(v))
	}
	*v = make(Values, 1)
	return json.Unmarshal(text, &(*v)[0])
}

// A backoff is a [Backoff] with durations as users write them.
type backoff struct {
	Min string `json:"min,omitempty"`
	Max string `json:"max,omitempty"`
}

// MarshalJSON implements [json.Marshaler]. Durations are strings, as in files.
func (b Backoff) MarshalJSON() ([]byte, error) {
	var texts backoff
	if b.Min != 0 {
		texts.Min = b.Min.String()
	}
	if b.Max != 0 {
		texts.Max = b.Max.String()
	}
	return json.Marshal(texts)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (b *Backoff) UnmarshalJSON(text []byte) (err error) {
	var texts backoff
	if err := json.Unmarshal(text, &texts); err != nil {
		return err
	}
	if texts.Min != "" {
		b.Min, err = time.ParseDuration(texts.Min)
	}
	if texts.Max != "" && err == nil {
		b.Max, err = time.ParseDuration(texts.Max)
	}
	return err
}

// seconds returns a duration as a number of seconds for JSON; nil if the duration is negative, which means unknown.
func seconds(d time.Duration) *float64 {
	if d < 0 {
		return nil
	}
	n := d.Seconds()
	return &n
}

// MarshalJSON implements [json.Marshaler]. An unknown lag is left out.
func (s Stats) MarshalJSON() ([]byte, error) {
	type plain Stats
	return json.Marshal(struct {
		plain
		LagSeconds *float64 `json:"lagSeconds,omitempty"`
	}{plain(s), seconds(s.Lag)})
}

// MarshalJSON implements [json.Marshaler]. The age is omitted if the node has left.
func (l Lease) MarshalJSON() ([]byte, error) {
	type plain Lease
	return json.Marshal(struct {
		plain
		AgeSeconds *float64 `json:"ageSeconds,omitempty"`
	}{plain(l), seconds(l.Age)})
}

// MarshalJSON implements [json.Marshaler].
func (n NodeStatus) MarshalJSON() ([]byte, error) {
	type plain NodeStatus
	return json.Marshal(struct {
		plain
		AgeSeconds float64 `json:"ageSeconds"`
	}{plain(n), n.Age.Seconds()})
}
