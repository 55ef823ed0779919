package jobscmd

import (
	"github.com/feedctl/feedctl/jobs"
)

// The types in this file describe what the commands print with --json. They are a contract: members
// may be added, but existing members keep their names and meanings.

// appliedJSON is printed by "jobs apply".
type appliedJSON struct {
	DryRun    bool         `json:"dryRun"`
	Created   int64        `json:"created"`
	Changed   int64        `json:"changed"`
	Deleted   int64        `json:"deleted"`
	Unchanged int64        `json:"unchanged"`
	Changes   []changeJSON `json:"changes"` // without the unchanged jobs
	// Problems holds all problems of the files. If there are any, nothing is changed.
	Problems []jobs.Problem `json:"problems,omitempty"`
}

// changeJSON says what happens to a job.
type changeJSON struct {
	Job    string      `json:"job"`
	Action jobs.Action `json:"action"`
	Fields []fieldJSON `json:"fields,omitempty"`
}

// fieldJSON is a field that differs. Before or After is empty if the field was not, or is no
// longer, set.
type fieldJSON struct {
	Field  string `json:"field"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// validatedJSON is printed by "jobs validate".
type validatedJSON struct {
	Jobs     int64          `json:"jobs"` // 0 if there are problems
	Problems []jobs.Problem `json:"problems"`
}

// selectedJSON is printed by "jobs pause", "resume", "restart", "cancel" and "delete".
type selectedJSON struct {
	Jobs    []string `json:"jobs"`    // the jobs that were named or selected
	Changed int64    `json:"changed"` // how many of these were changed
}

// historyJSON is printed by "jobs history".
type historyJSON struct {
	Job    string       `json:"job"`
	Events []jobs.Event `json:"events"` // newest first
}

// listJSON is printed by "jobs list".
type listJSON struct {
	Totals map[jobs.State]int `json:"totals"` // counts all jobs that the flags select
	Jobs   []jobs.Listed      `json:"jobs"`
	Next   string             `json:"next,omitempty"` // the value for --after, if there may be more jobs
}

// positionJSON is printed by "jobs position".
type positionJSON struct {
	Job   string      `json:"job"`
	State jobs.State  `json:"state"`
	Stats *jobs.Stats `json:"stats,omitempty"` // absent before the first run
}

// ranJSON is printed by "jobs run".
type ranJSON struct {
	Job    string     `json:"job"`
	State  jobs.State `json:"state"` // completed or failed; with --detach, any state
	Reason string     `json:"reason,omitempty"`
}

// logsJSON is printed by "jobs logs".
type logsJSON struct {
	Job   string         `json:"job"`
	Lines []jobs.LogLine `json:"lines"` // oldest first
}
