package console

import (
	"net/http"
	"slices"
	"strings"

	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/internal/shell"
	"github.com/feedctl/feedctl/internal/together"
	"github.com/feedctl/feedctl/jobs"
)

// mostListed is the largest number of nodes, of servers and of namespaces that a page lists.
const mostListed = 100

// nodesView shows what runs jobs, and for whom.
type nodesView struct {
	page
	Nodes       []nodeRow
	Origins     []originRow
	Tenants     []jobs.TenantStatus
	MoreNodes   int // that are not listed
	MoreOrigins int
	MoreTenants int

	OriginsCommand, TenantsCommand string
}

type nodeRow struct {
	jobs.NodeStatus
	State, UpFor, Heard, Has string
}

type originRow struct {
	jobs.OriginStatus
	State, Next, URL, Why string
}

// getNodes answers requests for "/nodes". The page shows resources that all namespaces share, so people whose
// credentials are limited to some namespaces are refused.
func (c *Console) getNodes(r *http.Request) (content, error) {
	if namespaces := namespacesOf(r); len(namespaces) > 0 {
		return nil, problem.New(http.StatusForbidden, "forbidden", "Your credentials are only for jobs in the namespaces %s.", strings.Join(namespaces, ", "))
	}
	v := &nodesView{
		page:           page{Title: "Nodes", Command: shell.Line("feedctl", "jobs", "nodes", "--db", c.config.JobsName)},
		OriginsCommand: shell.Line("feedctl", "jobs", "origins", "--db", c.config.JobsName),
		TenantsCommand: shell.Line("feedctl", "jobs", "tenants", "--db", c.config.JobsName),
	}
	var nodes []jobs.NodeStatus
	var origins []jobs.OriginStatus
	var tenants []jobs.TenantStatus
	ask := []func() error{
		func() (err error) { nodes, err = c.config.Jobs.Nodes(r.Context()); return err },
		func() (err error) { origins, err = c.config.Jobs.Origins(r.Context()); return err },
		func() (err error) { tenants, err = c.config.Jobs.Tenants(r.Context()); return err },
	}
	if err := together.Do(len(ask), func(i int) error { return ask[i]() }); err != nil {
		return nil, jobsProblem(err)
	}
	slices.SortStableFunc(nodes, func(a, b jobs.NodeStatus) int { return first(!a.Alive, !b.Alive) })
	for n := range atMost(nodes, &v.MoreNodes) {
		v.Nodes = append(v.Nodes, nodeOf(&nodes[n]))
	}
	slices.SortStableFunc(origins, func(a, b jobs.OriginStatus) int {
		return first(a.Down || a.Wait > 0, b.Down || b.Wait > 0)
	})
	for n := range atMost(origins, &v.MoreOrigins) {
		v.Origins = append(v.Origins, originOf(&origins[n]))
	}
	slices.SortStableFunc(tenants, func(a, b jobs.TenantStatus) int { return b.Waiting - a.Waiting })
	v.Tenants = atMost(tenants, &v.MoreTenants)
	return v, nil
}

// atMost returns the first rows of a list, and sets *more to the number of rows left out.
func atMost[T any](all []T, more *int) []T {
	n := min(len(all), mostListed)
	*more = len(all) - n
	return all[:n]
}

// first compares two values such that true comes before false.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func nodeOf(n *jobs.NodeStatus) nodeRow {
	row := nodeRow{NodeStatus: *n, State: "lost", UpFor: human.Duration(n.Up), Heard: human.Duration(n.Age) + " ago", Has: strings.Join(n.Labels, ", ")}
	if n.Alive {
		row.State = "alive"
	}
	return row
}

func originOf(o *jobs.OriginStatus) originRow {
	form := jobsForm{Origin: o.Origin}
	row := originRow{OriginStatus: *o, State: "up", URL: form.url(""), Why: cut(o.Reason, maxWhy)}
	switch {
	case o.Down:
		row.State = "down"
	case o.Wait > 0:
		row.State = "waits"
	}
	if o.Wait > 0 {
		row.Next = "in " + human.Duration(o.Wait)
	}
	return row
}
