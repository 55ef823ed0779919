// Package api serves a [jobs.Scheduler] over HTTP.
//
// # Resources
//
//	GET    /api/v1/jobs                              a page of jobs, and how many are in each state
//	GET    /api/v1/namespaces/NS/jobs/NAME           a job, where it stands and why
//	PUT    /api/v1/namespaces/NS/jobs/NAME           creates or changes it
//	DELETE /api/v1/namespaces/NS/jobs/NAME           deletes it; what it has written stays
//	POST   /api/v1/namespaces/NS/jobs/NAME:validate  checks it, and stores nothing
//	PUT    /api/v1/namespaces/NS/jobs/NAME/desired   "running" or "paused"
//	POST   /api/v1/namespaces/NS/jobs/NAME/restart   makes it due at once, whatever happened before
//	POST   /api/v1/namespaces/NS/jobs/NAME/cancel    ends it, if it does not follow
//	GET    /api/v1/namespaces/NS/jobs/NAME/events    its last events, newest first
//	GET    /api/v1/namespaces/NS/jobs/NAME/logs      its last warnings and errors
//	POST   /api/v1/validate                          checks many jobs, and stores nothing
//	GET    /api/v1/export                            the documents of jobs, as a file in JSON or YAML
//	POST   /api/v1/runs                              runs a job that is in no file once; with ?retry=true, again after errors
//	GET    /api/v1/nodes                             the nodes
//	GET    /api/v1/origins                           the servers that jobs use
//	GET    /api/v1/tenants                           the namespaces, and what they use
//	PATCH  /api/v1/tenants/NS                        sets "shares" and "maxRunning" of a namespace
//	GET    /api/v1/settings                          the settings of the scheduler
//	PATCH  /api/v1/settings                          changes some, by name; "" resets one
//	GET    /_scheduler/jobs                          jobs that have not ended, in CouchDB's form
//	GET    /_scheduler/jobs/NS/NAME                  one of them
//	GET    /_scheduler/docs                          all jobs except those that run once
//	GET    /_scheduler/docs/_replicator              the same
//	GET    /_scheduler/docs/NS/_replicator           the jobs of a namespace
//	GET    /_scheduler/docs/NS/_replicator/NAME      one of them
//	GET    /_active_tasks                            jobs that run or are idle
//	GET    /openapi.json                             a description of the resources (OpenAPI 3.1)
//	GET    /healthz                                  the process works
//	GET    /readyz                                   its database and its node work, too; 503 names what does not, and since when
//
// Below /runs/ there may be web pages about runs: those of River, the queue of runs. They are read-only: the requests
// that their buttons send are refused.
//
// Bodies are JSON. A job has the fields that it has in a file, and /api/v1/validate takes documents in the form of a
// file. Unknown fields are refused, and so are unknown parameters, before anything is done.
//
// The list takes the parameters namespace, state, kind, origin, name and label (NAME=VALUE),
// of which state and label may have several values, separated by commas: a job must have one of the states and all of the
// labels, of which there may be up to 20. A page has up to limit jobs; its "next" is the cursor of the next page.
//
// The export takes the same parameters, except cursor and limit, and format: json or yaml.
//
// The log consists of the lines whose numbers exceed the parameter "after". With follow=true the answer is a JSON
// object for each line (application/x-ndjson), and ends when the client disconnects, the server stops or the job is
// deleted; empty lines keep it alive. Up to 100 clients can follow logs at the same time.
//
// A run has the fields of a job. Its name is derived from these fields, and its namespace is "default" if it has none.
// While the same job has not ended, the answer is that job; once it has ended, it runs again.
//
// The ETag of a job changes with its document, and when the job is paused or resumed, but not with its runs; a job that is
// deleted and created again has a new ETag. A PUT with If-Match changes only the job with this ETag, and one with
// "If-None-Match: *" only creates.
//
// Requests can be repeated without harm, except two that make a job run again: a restart, and POST /api/v1/runs after the
// end of the run.
//
// # CouchDB
//
// The resources that begin with "_" are read-only. They have the form of CouchDB's, version 3, for
// scripts that watch its replicator. A namespace is the database NS/_replicator, and a job is a
// document in it; the ID of a replication is NS/NAME. A job that is idle is "running" with no
// pending changes, and one that is paused is "pending". Statistics are those of [jobs.Stats]: entities are documents,
// entities that the target already had count as revisions that were checked, and positions are sequences. The parameters are
// limit, skip and states; limit has no maximum, and an answer that takes more than 30 seconds is cut off.
//
// # Access
//
// Credentials are for reading or for writing, like those of [server.Config]. Validating a job counts as reading. A
// [Credential] may be limited to namespaces: lists then leave out other namespaces, and requests for these are answered with
// 403, whether the job exists or not. /healthz and /readyz need no credentials. Requests that change something are refused
// if a browser sends them for a web page of another origin. See [CheckExposure].
//
// # Problems
//
// Errors are application/problem+json (RFC 9457). Their type is "urn:feedctl:problem:" and one
// of these:
//
//	no-resource         404  there is nothing at this path
//	no-job              404  there is no such job
//	method              405  see Allow; 501 for a method that no resource has
//	unauthorized        401  credentials are missing or wrong
//	forbidden           403  the credentials do not allow this
//	cross-origin        403  a web page of another origin sent the request
//	host                421  Host is not this machine, on a loopback address without credentials
//	follows             409  the job follows its source, and cannot be cancelled
//	taken               409  another job does the same, or writes to the same target
//	precondition        412  If-Match or If-None-Match does not hold
//	invalid-request     400  a parameter or the body is wrong
//	invalid-jobs        422  jobs are invalid; the member "problems" has all problems
//	incomplete          400  the body ended early
//	timeout             408  the body arrived too slowly
//	too-large           413  the body exceeds the limit
//	media-type          415  the body is not JSON
//	database-away       503  the database does not respond
//	lease-lost          503  the lease of the process's node has expired
//	too-many            503  the maximum number of clients follow logs; see Retry-After
//	internal            500  see the server's log
package api
