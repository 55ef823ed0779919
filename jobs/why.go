package jobs

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// why returns a sentence that explains why a job is in its state.
func (f *facts) why() string {
	j := f.job
	switch j.State {
	case Running:
		return f.whyRunning()
	case Idle:
		return fmt.Sprintf("idle since %s: caught up, waiting for its source to change", at(j.Since)) + f.whyUnwatched()
	case Paused:
		return fmt.Sprintf("paused since %s, until it is resumed", at(j.Since))
	case Completed:
		why := "completed at " + at(j.Since)
		if j.Reason != "" {
			why += ": " + j.Reason
		}
		return why
	case Failed:
		return fmt.Sprintf("failed at %s, and will not be tried again until it is changed or restarted: %s", at(j.Since), j.Reason)
	}
	if why := f.whyNotYet(); why != "" {
		return why
	}
	if why := f.whyNowhere(); why != "" {
		return why
	}
	if most := f.tenant.MaxRunning; most > 0 && f.tenant.Running >= most {
		return fmt.Sprintf("namespace %s runs %s, the maximum", f.tenant.Namespace, jobsOf(f.tenant.Running))
	}
	if f.once != "" {
		return fmt.Sprintf("waits for the end of %s, which runs once and does the same or writes to the same target", f.once)
	}
	if f.full != "" {
		return fmt.Sprintf("%s has %d running jobs, the maximum", f.full, f.limit)
	}
	if f.free() {
		return "due, and will start within seconds"
	}
	why := fmt.Sprintf("waits for a slot: %s of its namespace %s ahead of it", jobsOf(f.before), are(f.before))
	if f.limited {
		return why
	}
	return why + fmt.Sprintf(", and %s of other namespaces %s due", jobsOf(f.others), are(f.others))
}

// whyUnwatched returns the reason why the server that an idle job waits for is not watched, or ""
// if it is watched.
func (f *facts) whyUnwatched() string {
	switch w := f.watch; {
	case w == nil || w.Type == "":
		return ""
	case w.Error != "":
		return fmt.Sprintf("; it runs from time to time, as %s cannot be watched: %s", w.Server, w.Error)
	case w.By == "":
		return fmt.Sprintf("; it runs from time to time, as no node watches %s", w.Server)
	}
	return ""
}

func jobsOf(n int) string {
	if n == 1 {
		return "1 job"
	}
	return fmt.Sprintf("%d jobs", n)
}

func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func (f *facts) whyRunning() string {
	j := f.job
	switch {
	case f.lease.Age < 0:
		return fmt.Sprintf("its node %s has left, and another node will run it", f.node)
	case f.lease.Stale:
		return fmt.Sprintf("its node %s was last heard from %v ago, and another node will run it", f.node, f.lease.Age.Round(time.Second))
	case j.Document.Paused:
		return fmt.Sprintf("node %s is ending its run, as it was paused", f.node)
	case j.Generation != j.Observed:
		return fmt.Sprintf("node %s is ending its run, as it was changed", f.node)
	}
	return fmt.Sprintf("running on node %s since %s", f.node, at(j.Started))
}

// whyNotYet explains until when a pending job waits. It returns "" if the job is due.
func (f *facts) whyNotYet() string {
	j := f.job
	waits := j.NotBefore.After(f.now)
	switch {
	case waits && j.Errors == 0 && j.Document.Schedule != "":
		why := "its next scheduled run is at " + at(j.NotBefore)
		if j.Reason != "" {
			why += "; its last run: " + j.Reason
		}
		return why
	case len(f.origins) > 0 && f.origins[0].down:
		o := &f.origins[0]
		when := "now"
		if o.until.After(f.now) {
			when = "at " + at(o.until)
		}
		return fmt.Sprintf("%s is down, and one of its jobs will try it again %s: %s", o.name, when, o.reason)
	case len(f.origins) > 0:
		o := &f.origins[0]
		return fmt.Sprintf("%s asks its clients to wait until %s: %s", o.name, at(o.until), o.reason)
	case waits && j.Errors == 1:
		return fmt.Sprintf("crashed, and will be tried again at %s: %s", at(j.NotBefore), j.Reason)
	case waits && j.Errors > 1:
		return fmt.Sprintf("crashed %d times in a row, and will be tried again at %s: %s", j.Errors, at(j.NotBefore), j.Reason)
	case waits:
		return fmt.Sprintf("starts at %s, so that not all jobs start at once", at(j.NotBefore))
	}
	return ""
}

// whyNowhere returns the reason why no node may run the job, or "" if one may.
func (f *facts) whyNowhere() string {
	p := &f.job.Document.Placement
	pinned := slices.ContainsFunc(f.nodes, func(n NodeStatus) bool { return n.Name == p.Node })
	switch {
	case len(f.nodes) == 0:
		return "no node is alive"
	case p.Node != "" && !pinned:
		return fmt.Sprintf("pinned to node %s, which is not alive", p.Node)
	case slices.ContainsFunc(f.nodes, func(n NodeStatus) bool { return p.allows(&n.Node) }):
		return ""
	case p.Node != "":
		return fmt.Sprintf("pinned to node %s, which does not have all of the labels %s", p.Node, strings.Join(p.Labels, ", "))
	}
	return fmt.Sprintf("no node that is alive has all of the labels %s", strings.Join(p.Labels, ", "))
}

// free reports whether a node that may run the job has a free slot.
func (f *facts) free() bool {
	return slices.ContainsFunc(f.nodes, func(n NodeStatus) bool { return n.Running < n.Slots && f.job.Document.Placement.allows(&n.Node) })
}

func at(t time.Time) string { return t.UTC().Format(time.RFC3339) }
