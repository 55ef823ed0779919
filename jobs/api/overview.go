package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/jobs"
)

// overview returns the handler of a short list: nodes, servers or namespaces.
func overview[T any](member string, list func(context.Context) ([]T, error)) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		all, err := list(r.Context())
		if err != nil {
			return err
		}
		if all == nil {
			all = []T{} // [] in JSON
		}
		return answer(w, http.StatusOK, map[string]any{member: all})
	}
}

func (a *API) patchTenant(w http.ResponseWriter, r *http.Request) error {
	var t jobs.Tenant
	if err := object(w, r, &t); err != nil {
		return err
	}
	if err := a.jobs.SetTenant(r.Context(), chi.URLParam(r, "namespace"), t); err != nil {
		return err
	}
	return overview("tenants", a.jobs.Tenants)(w, r)
}

// settings is the answer with all settings of the scheduler.
type settings struct {
	Settings []jobs.Setting `json:"settings"`
}

func (a *API) getSettings(w http.ResponseWriter, r *http.Request) error {
	s, err := a.jobs.Settings(r.Context())
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, settings{s.List()})
}

func (a *API) patchSettings(w http.ResponseWriter, r *http.Request) error {
	changes := map[string]string{}
	if err := object(w, r, &changes); err != nil {
		return err
	}
	s, err := a.jobs.Set(r.Context(), changes)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, settings{s.List()})
}

// object reads a body that is a JSON object without unknown members.
func object(w http.ResponseWriter, r *http.Request, into any) error {
	text, err := body(w, r, maxJob)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return problem.New(http.StatusBadRequest, "invalid-request", "the body is empty: want a JSON object")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err = d.Decode(into); err == nil {
		if _, err = d.Token(); err == nil {
			err = errors.New("there is more than one value")
		}
	}
	if !errors.Is(err, io.EOF) {
		return problem.New(http.StatusBadRequest, "invalid-request", "the body: %v", err)
	}
	return nil
}
