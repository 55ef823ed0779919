package api

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/feedctl/feedctl/internal/httpfield"
	"github.com/feedctl/feedctl/jobs"
)

// id returns the ID of the job that a path names.
func id(r *http.Request) string {
	return chi.URLParam(r, "namespace") + "/" + chi.URLParam(r, "name")
}

func etag(version string) string { return `"` + version + `"` }

// sendJob answers with everything that is known about a job.
func (a *API) sendJob(w http.ResponseWriter, r *http.Request, id string, status int) error {
	d, err := a.jobs.Describe(r.Context(), id)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", etag(d.Version()))
	return answer(w, status, d)
}

func (a *API) getJob(w http.ResponseWriter, r *http.Request) error {
	return a.sendJob(w, r, id(r), http.StatusOK)
}

// condition returns a function that reports whether If-Match and If-None-Match hold for a job (RFC
// 9110, section 13).
func condition(r *http.Request) func(id, version string) bool {
	match, noneMatch := r.Header.Values("If-Match"), r.Header.Values("If-None-Match")
	return func(_, version string) bool {
		matches := func(fields []string) bool {
			return version != "" && httpfield.MatchesETag(fields, etag(version), false)
		}
		return (len(match) == 0 || matches(match)) && !matches(noneMatch)
	}
}

// bodyJob reads the job in a body. The name and namespace of the job are in the path.
func bodyJob(w http.ResponseWriter, r *http.Request) (jobs.Document, error) {
	text, err := body(w, r, maxJob)
	if err != nil {
		return jobs.Document{}, err
	}
	d, err := jobs.ParseJob(text)
	problems, ok := errors.AsType[jobs.InvalidError](err)
	if err != nil && !ok {
		return d, err
	}
	for _, name := range []struct {
		field string
		value *string
	}{{"namespace", &d.Namespace}, {"name", &d.Name}} {
		path := chi.URLParam(r, name.field)
		if *name.value != "" && *name.value != path {
			problems = append(problems, jobs.Problem{Field: name.field, Message: fmt.Sprintf("%q differs from %q in the path", *name.value, path)})
		}
		*name.value = path
	}
	if len(problems) > 0 {
		return d, problems
	}
	return d, nil
}

func (a *API) putJob(w http.ResponseWriter, r *http.Request) error {
	d, err := bodyJob(w, r)
	changes, err := a.apply(r, []jobs.Document{d}, err, jobs.ApplyOptions{If: condition(r)})
	if err != nil {
		return err
	}
	status := http.StatusOK
	if changes[0].Action == jobs.Created {
		status = http.StatusCreated
	}
	return a.sendJob(w, r, id(r), status)
}

func (a *API) validateJob(w http.ResponseWriter, r *http.Request) error {
	d, err := bodyJob(w, r)
	return a.validate(w, r, []jobs.Document{d}, err)
}

func (a *API) validateAll(w http.ResponseWriter, r *http.Request) error {
	text, err := body(w, r, maxJobs)
	if err != nil {
		return err
	}
	documents, err := jobs.ParseJobs(text)
	for n := range documents {
		if err := mayUse(r, documents[n].Namespace); err != nil {
			return err
		}
	}
	return a.validate(w, r, documents, err)
}

// validate answers a request to check documents: the answer says what applying them would do. It stores nothing.
func (a *API) validate(w http.ResponseWriter, r *http.Request, documents []jobs.Document, err error) error {
	changes, err := a.apply(r, documents, err, jobs.ApplyOptions{DryRun: true, If: condition(r)})
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, validated{changes})
}

// validated is the answer that says what applying documents would do.
type validated struct {
	Changes []jobs.Change `json:"changes"`
}

// apply applies documents; read is the error that occurred when they were read, or nil. If the documents are invalid,
// the error contains all of their problems.
func (a *API) apply(r *http.Request, documents []jobs.Document, read error, o jobs.ApplyOptions) ([]jobs.Change, error) {
	problems, ok := errors.AsType[jobs.InvalidError](read)
	if read != nil && !ok {
		return nil, read
	}
	o.DryRun = o.DryRun || ok
	changes, err := a.jobs.Apply(r.Context(), documents, o)
	more, invalid := errors.AsType[jobs.InvalidError](err)
	switch {
	case err != nil && !invalid:
		return nil, err
	case ok || invalid:
		return nil, append(problems, more...)
	}
	return changes, nil
}

func (a *API) deleteJob(w http.ResponseWriter, r *http.Request) error {
	if err := a.jobs.DeleteIf(r.Context(), id(r), condition(r)); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *API) putDesired(w http.ResponseWriter, r *http.Request) error {
	desired, err := word(w, r, "running", "paused")
	if err != nil {
		return err
	}
	set := a.jobs.Resume
	if desired == "paused" {
		set = a.jobs.Pause
	}
	if _, err := set(r.Context(), id(r)); err != nil {
		return err
	}
	return a.sendJob(w, r, id(r), http.StatusOK)
}

func (a *API) restartJob(w http.ResponseWriter, r *http.Request) error {
	if _, err := a.jobs.Restart(r.Context(), id(r)); err != nil {
		return err
	}
	return a.sendJob(w, r, id(r), http.StatusOK)
}

func (a *API) getEvents(w http.ResponseWriter, r *http.Request) error {
	if _, err := a.jobs.Get(r.Context(), id(r)); err != nil {
		return err
	}
	events, err := a.jobs.History(r.Context(), id(r))
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, history{events})
}

// history is the answer with the last events of a job.
type history struct {
	Events []jobs.Event `json:"events"` // newest first
}
