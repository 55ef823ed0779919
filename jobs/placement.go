package jobs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A Placement restricts the nodes that may run a job. The zero value allows any.
type Placement struct {
	// Node is the name of the only node that may run the job. Jobs that use files of a node must
	// name that node.
	Node string `json:"node,omitempty"`
	// Labels lists labels, all of which a node must have; see [WorkerConfig].
	Labels []string `json:"labels,omitempty"`
}

// Labels of nodes have no capitals, since SQLite's LIKE ignores case.
var validNodeLabel = regexp.MustCompile(`^[a-z0-9]([a-z0-9._/=-]{0,62}[a-z0-9])?$`)

const nodeLabelRule = "want up to 64 of a-z 0-9 . _ / = -, a letter or digit first and last"

// CheckNodeLabels returns the problems of the labels of a node.
func CheckNodeLabels(labels []string) (problems []string) {
	for _, label := range labels {
		if !validNodeLabel.MatchString(label) {
			problems = append(problems, "invalid label \""+label+"\": "+nodeLabelRule)
		}
	}
	return problems
}

// pattern returns a LIKE pattern that matches the text of a node if the node has all labels.
func (p *Placement) pattern() string {
	var b strings.Builder
	for _, label := range sortedLabels(p.Labels) {
		b.WriteString("%," + strings.ReplaceAll(label, "_", `\_`) + ",")
	}
	return b.String() + "%"
}

// text returns the labels of a node in the form that patterns match.
func (n *Node) text() string {
	var b strings.Builder
	for _, label := range sortedLabels(n.Labels) {
		b.WriteString("," + label + ",")
	}
	return b.String()
}

func sortedLabels(labels []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(labels)))
}

// placed returns the condition that a node may run a job. The arguments of the condition are the
// name and the text of the node; first is the number of the first argument.
func placed(first int) string {
	return fmt.Sprintf(`(node = '' OR node = $%d) AND CAST($%d AS text) LIKE placement ESCAPE '\'`, first, first+1)
}

// allows reports whether a node may run a job.
func (p *Placement) allows(n *Node) bool {
	lacks := func(label string) bool { return !slices.Contains(n.Labels, label) }
	return (p.Node == "" || p.Node == n.Name) && !slices.ContainsFunc(p.Labels, lacks)
}
