package api

import (
	"net/http"

	"github.com/feedctl/feedctl/jobs"
)

// A route describes a resource.
type route struct {
	pattern    string
	operations operations
}

type operations map[string]operation // by method

// An operation describes what a method does. The handler and the names of the parameters are used to serve requests;
// the other fields only describe the operation.
type operation struct {
	handle   handler
	summary  string
	query    []string // names of parameters; other parameters are refused
	takes    any      // a value with the type of the request's body; nil if there is none
	gives    any      // the same for the answer; a string is the media type of the answer
	statuses []int    // of success; nil means 200
}

// anyOf describes a JSON object with arbitrary members.
type anyOf map[string]any

// A collection holds the documents of a file.
type collection struct {
	Version   int             `json:"version"`
	Namespace string          `json:"namespace,omitempty"`
	Defaults  anyOf           `json:"defaults,omitempty"`
	Jobs      []jobs.Document `json:"jobs"`
}

// The lists.
type (
	nodeList struct {
		Nodes []jobs.NodeStatus `json:"nodes"`
	}
	originList struct {
		Origins []jobs.OriginStatus `json:"origins"`
	}
	tenantList struct {
		Tenants []jobs.TenantStatus `json:"tenants"`
	}
)

const plain = "text/plain"

// table returns all resources.
func (a *API) table() []route {
	reads, writes := a.reads, a.writes
	const (
		job  = "/api/v1/namespaces/{namespace}/jobs/{name}"
		docs = "/_scheduler/docs"
	)
	described, document := jobs.Description{}, jobs.Document{}
	selects := []string{"namespace", "state", "kind", "origin", "name", "label"}
	paged, states := []string{"limit", "skip"}, []string{"limit", "skip", "states"}
	return []route{
		{"/healthz", operations{"GET": {a.health, "Whether the process works", nil, nil, plain, nil}}},
		{"/readyz", operations{"GET": {a.readiness, "Whether the process and its database work", nil, nil, plain, nil}}},
		{"/openapi.json", operations{"GET": {reads(forAny, a.openAPI), "This description", nil, nil, anyOf{}, nil}}},
		{"/api/v1/jobs", operations{"GET": {reads(forAny, a.listJobs), "A page of jobs, and how many are in each state", append([]string{"cursor", "limit"}, selects...), nil, list{}, nil}}},
		{"/api/v1/validate", operations{"POST": {reads(forAny, a.validateAll), "Check many jobs without storing them", nil, collection{}, validated{}, nil}}},
		{"/api/v1/export", operations{"GET": {reads(forAny, a.export), "The documents of jobs, as a file", append([]string{"format"}, selects...), nil, collection{}, nil}}},
		{"/api/v1/runs", operations{"POST": {writes(forAny, a.postRun), "Run a job once; with retry=true, again after errors", []string{"retry"}, document, described, []int{http.StatusAccepted}}}},
		{"/api/v1/nodes", operations{"GET": {reads(forAll, overview("nodes", a.jobs.Nodes)), "The nodes", nil, nil, nodeList{}, nil}}},
		{"/api/v1/origins", operations{"GET": {reads(forAll, overview("origins", a.jobs.Origins)), "The servers that jobs use", nil, nil, originList{}, nil}}},
		{"/api/v1/tenants", operations{"GET": {reads(forAny, overview("tenants", a.jobs.Tenants)), "The namespaces, and what they use", nil, nil, tenantList{}, nil}}},
		{"/api/v1/tenants/{namespace}", operations{"PATCH": {writes(forAll, a.patchTenant), "Set the shares of a namespace", nil, jobs.Tenant{}, tenantList{}, nil}}},
		{"/api/v1/settings", operations{
			"GET":   {reads(forAny, a.getSettings), "The settings of the scheduler", nil, nil, settings{}, nil},
			"PATCH": {writes(forAll, a.patchSettings), "Change settings; an empty value resets one", nil, map[string]string{}, settings{}, nil},
		}},
		{job, operations{
			"GET":    {reads(forPath, a.getJob), "A job, its state and the reason for it", nil, nil, described, nil},
			"PUT":    {writes(forPath, a.putJob), "Create a job, or change it", nil, document, described, []int{http.StatusOK, http.StatusCreated}},
			"DELETE": {writes(forPath, a.deleteJob), "Delete a job; what it has written stays", nil, nil, nil, []int{http.StatusNoContent}},
		}},
		{job + ":validate", operations{"POST": {reads(forPath, a.validateJob), "Check a job without storing it", nil, document, validated{}, nil}}},
		{job + "/desired", operations{"PUT": {writes(forPath, a.putDesired), "Pause or resume a job", nil, "", described, nil}}},
		{job + "/restart", operations{"POST": {writes(forPath, a.restartJob), "Make a job due at once, whatever happened before", nil, nil, described, nil}}},
		{job + "/cancel", operations{"POST": {writes(forPath, a.cancelJob), "End a job that does not follow", nil, nil, described, nil}}},
		{job + "/events", operations{"GET": {reads(forPath, a.getEvents), "The last events of a job, newest first", nil, nil, history{}, nil}}},
		{job + "/logs", operations{"GET": {a.readers.allowed(forPath, a.getLogs), "The last warnings and errors of a job", []string{"after", "follow"}, nil, logLines{}, nil}}},
		{"/_scheduler/jobs", operations{"GET": {reads(forAny, a.schedulerJobs), "Jobs that have not ended, in CouchDB's form", paged, nil, couchJobs{}, nil}}},
		{"/_scheduler/jobs/{namespace}/{name}", operations{"GET": {reads(forPath, a.schedulerJob), "A job, in CouchDB's form", nil, nil, couchJob{}, nil}}},
		{docs, operations{"GET": {reads(forAny, a.schedulerDocs), "All jobs with a document, in CouchDB's form", states, nil, couchDocs{}, nil}}},
		{docs + "/_replicator", operations{"GET": {reads(forAny, a.schedulerDocs), "All jobs with a document, in CouchDB's form", states, nil, couchDocs{}, nil}}},
		{docs + "/{namespace}/_replicator", operations{"GET": {reads(forPath, a.schedulerDocs), "The jobs of a namespace, in CouchDB's form", states, nil, couchDocs{}, nil}}},
		{docs + "/{namespace}/_replicator/{name}", operations{"GET": {reads(forPath, a.schedulerDoc), "A job with a document, in CouchDB's form", nil, nil, couchDoc{}, nil}}},
		{"/_active_tasks", operations{"GET": {reads(forAny, a.activeTasks), "Jobs that run or are idle, in CouchDB's form", nil, nil, []couchTask{}, nil}}},
	}
}
