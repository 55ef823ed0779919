package api

import (
	"cmp"
	"io"
	"net/http"

	"github.com/feedctl/feedctl/jobs"
)

// postRun adds a job that runs once; with "retry", it is tried again after errors. If the same job has ended before, it
// runs again.
func (a *API) postRun(w http.ResponseWriter, r *http.Request) error {
	p := query(r)
	retry := p.yes("retry")
	if p.err != nil {
		return p.err
	}
	text, err := body(w, r, maxJob)
	if err != nil {
		return err
	}
	d, err := jobs.ParseJob(text)
	if err != nil {
		return err
	}
	d.Namespace = cmp.Or(d.Namespace, "default")
	if err := mayUse(r, d.Namespace); err != nil {
		return err
	}
	j, err := a.jobs.RunOnce(r.Context(), d, retry)
	if err != nil {
		return err
	}
	id := j.Document.ID()
	if j.Finished() {
		if _, err := a.jobs.Restart(r.Context(), id); err != nil {
			return err
		}
	}
	w.Header().Set("Location", "/api/v1/namespaces/"+j.Document.Namespace+"/jobs/"+j.Document.Name)
	return a.sendJob(w, r, id, http.StatusAccepted)
}

func (a *API) cancelJob(w http.ResponseWriter, r *http.Request) error {
	if _, err := a.jobs.Cancel(r.Context(), id(r)); err != nil {
		return err
	}
	return a.sendJob(w, r, id(r), http.StatusOK)
}

// export answers with documents that can be applied again.
func (a *API) export(w http.ResponseWriter, r *http.Request) error {
	p := query(r)
	f, format := p.filter(r), p.text("format")
	write, media := jobs.WriteJSON, "application/json"
	switch format {
	case "", "json":
	case "yaml":
		write, media = jobs.WriteYAML, "application/yaml"
	default:
		p.invalid("parameter \"format\" is %.100q: want json or yaml", format)
	}
	if p.err != nil {
		return p.err
	}
	return a.stream(w, r, media, func(out io.Writer) error { return write(out, a.jobs.Export(r.Context(), f)) })
}
