package api

import "net/http"

func (a *API) health(w http.ResponseWriter, _ *http.Request) error { return text(w, "ok\n") }

func (a *API) readiness(w http.ResponseWriter, r *http.Request) error {
	ready, err := a.ready.Ready(r.Context())
	if err != nil {
		return err
	}
	return text(w, ready)
}

func text(w http.ResponseWriter, s string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(s)) // an error means that the client has disconnected
	return nil
}
