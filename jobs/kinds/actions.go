package kinds

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/progress"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/kinto"
)

// An Action is an operation on the data of a job, other than a run. It uses the source, target,
// credentials and options from the job's document.
type Action struct {
	// Name is a verb, and About says what the action does.
	Name, About string
	// Command is the command line for the same operation, in the form that [Command] returns.
	Command string
	// Run performs the action. The findings describe what is wrong with the data; omitted is the
	// number of further findings.
	Run func(ctx context.Context, e *task.Env) (summary string, findings []string, omitted int64, err error)
	// Status returns the progress of Run. It is nil if the progress is not known.
	Status func() progress.Status
}

// Actions returns the actions that a node offers for a job. It returns none for a job with files on
// another node.
func Actions(d *jobs.Document, node string) []Action {
	k, ok := known[d.Kind]
	if !ok {
		return nil
	}
	p, problems := k.parse(d)
	if len(problems) > 0 || (p.source.local || p.target.local) && d.Placement.Node != "" && d.Placement.Node != node {
		return nil
	}
	switch r := p.runner.(type) {
	case *bridgeRun:
		return []Action{retryAction(p, &r.Source)}
	case *kintoRun:
		if address, err := kinto.ParseURL(d.Source); err != nil || address.Collection == "" {
			return nil // a bucket has many feeds
		}
		s := task.CouchSource{URL: r.Source.URL, Index: r.Source.Index, MaxDocument: r.Source.MaxRecord}
		return []Action{retryAction(p, &s)}
	case *consumeRun:
		return reconcileAction(p, r)
	}
	return nil
}

// retryAction returns the action that retries publishing what a bridge has put into quarantine.
func retryAction(p *parsed, s *task.CouchSource) Action {
	words := []string{"bridge", "quarantine", p.Target, "--retry", p.Source}
	if s.Index != "" {
		words = append(words, "--index", s.Index)
	}
	if s.MaxDocument != 0 {
		words = append(words, "--max-document", strconv.FormatInt(s.MaxDocument, 10))
	}
	words, variables := credentialOf(p.Document, "source", "--credentials-file", "FEEDCTL_CREDENTIALS", words, nil)
	words, variables = credentialOf(p.Document, "target", "", "PGPASSWORD", words, variables)
	return Action{
		Name:    "retry quarantine",
		About:   "It requests again what the bridge could not publish, and publishes what can be published now. The bridge may run at the same time.",
		Command: shellCommand(p.Document, words, variables),
		Run: func(ctx context.Context, e *task.Env) (string, []string, int64, error) {
			secrets, err := resolve(p)
			if err != nil {
				return "", nil, 0, err
			}
			t := task.RetryQuarantined{Feed: withPassword(p.Target, secrets.targetPassword), Source: *s}
			t.Source.URL, t.Source.Credential = p.Source, secrets.source
			report, err := t.Run(ctx, e)
			if err != nil {
				return "", nil, 0, err
			}
			return fmt.Sprintf("published %s; %s taken out of quarantine, %s left", human.Plural(report.Published, "entity", "entities"),
				human.Count(report.Removed), human.Count(report.Left)), nil, 0, nil
		},
	}
}

// reconcileAction returns the action that compares what a consumer has written with its feed. It
// returns nothing if the sink cannot be compared.
func reconcileAction(p *parsed, r *consumeRun) []Action {
	t := &task.Reconcile{Feed: p.Source, Into: p.Target, Columns: r.Columns, Key: r.Key, Client: r.Client}
	if t.Check() != nil {
		return nil
	}
	words := []string{"reconcile", p.Source, "--into", p.Target}
	for _, option := range []struct{ flag, value string }{{"--columns", r.Columns}, {"--key", r.Key}} {
		if option.value != "" {
			words = append(words, option.flag, option.value)
		}
	}
	into := "FEEDCTL_INTO_CREDENTIALS"
	if strings.HasPrefix(p.Target, "postgres") {
		into = "PGPASSWORD"
	}
	words, variables := credentialOf(p.Document, "source", "--credentials-file", sourceVariable(p.Document), words, nil)
	words, variables = credentialOf(p.Document, "target", "--into-credentials-file", into, words, variables)
	return []Action{{
		Name:    "reconcile",
		About:   "It compares what the sink has with the state digest of the feed, key by key where they differ. Nothing is changed.",
		Command: shellCommand(p.Document, words, variables),
		Status:  t.Status,
		Run: func(ctx context.Context, e *task.Env) (string, []string, int64, error) {
			secrets, err := resolve(p)
			if err != nil {
				return "", nil, 0, err
			}
			t.Feed, t.Into = withPassword(p.Source, secrets.sourcePassword), withPassword(p.Target, secrets.targetPassword)
			t.Client.Credential, t.IntoCredential = secrets.source, secrets.target
			result, err := t.Run(ctx, e)
			if result == nil || err != nil && exit.Status(err) != exit.Differs {
				return "", nil, 0, err
			}
			return reconciled(result)
		},
	}}
}

// reconciled describes the result of a comparison.
func reconciled(r *task.Reconciled) (summary string, findings []string, omitted int64, err error) {
	for _, d := range r.List {
		line := d.Kind + " " + d.Key
		if d.Why != "" {
			line += ": " + d.Why
		}
		findings = append(findings, line)
	}
	found := "equal"
	if n := r.Differences(); n > 0 {
		found = human.Plural(n, "difference", "differences")
	}
	return fmt.Sprintf("%s compared: %s", human.Plural(r.Rows, "row", "rows"), found), findings, r.Omitted, nil
}
