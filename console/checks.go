package console

import (
	"net/http"

	"github.com/feedctl/feedctl/internal/shell"
	"github.com/feedctl/feedctl/jobs"
)

// checkRows is the largest number of checks, and of jobs that check, on the page of checks.
const checkRows = 20

// A checksView is the page of checks.
type checksView struct {
	page
	Checks []checkRow // newest first
	More   int        // older checks that the console remembers
	// Corrupt is how many objects with wrong digests this process has read.
	Corrupt int64
	HasJobs bool
	Jobs    []jobRow // the first jobs of kind verify
	Live    string
}

// A checkRow is a check that was made.
type checkRow struct {
	run
	URL       string // of its page
	TargetURL string
	First     string // the first finding, or the error
	Findings  int
}

// isCheck reports whether an action checks something.
func isCheck(name string) bool { return name == "verify" || name == "doctor" || name == "reconcile" }

// getChecks answers requests for "/checks": the checks that were made from the console, and the jobs that check.
func (c *Console) getChecks(r *http.Request) (content, error) {
	v := &checksView{page: page{Title: "Checks"}, HasJobs: c.config.Jobs != nil, Live: "checks?part=checks"}
	for _, x := range c.runs.list(r.Context()) {
		switch {
		case !isCheck(x.Action):
		case len(v.Checks) == checkRows:
			v.More++
		default:
			v.Checks = append(v.Checks, newCheckRow(x))
		}
	}
	if c.config.Feeds != nil && len(namespacesOf(r)) == 0 {
		v.Corrupt = int64(c.config.Feeds.Stats().Corrupt)
		v.Command = shell.Line("feedctl", "doctor", c.config.StoreName)
	}
	if v.HasJobs {
		found, err := c.config.Jobs.List(r.Context(), jobs.Filter{Kind: "verify", Limit: checkRows})
		if err != nil {
			return nil, jobsProblem(err)
		}
		for n := range found.Jobs {
			v.Jobs = append(v.Jobs, c.jobRow(&found.Jobs[n]))
		}
	}
	return v, nil
}

func newCheckRow(x run) checkRow {
	row := checkRow{run: x, URL: runURL(x.ID), TargetURL: feedURL(x.Target), First: x.Error, Findings: len(x.Result.Findings) + x.Result.Omitted}
	if x.Job {
		row.TargetURL = jobURL(x.Target)
	}
	if row.First == "" && len(x.Result.Findings) > 0 {
		row.First = x.Result.Findings[0]
	}
	return row
}
