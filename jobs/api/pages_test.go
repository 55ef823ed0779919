package api_test

import (
	"strings"
	"testing"

	"github.com/feedctl/feedctl/jobs/api"
	"github.com/feedctl/feedctl/server"
)

// TestPages: the pages about runs need credentials for reading all namespaces, and change nothing.
func TestPages(t *testing.T) {
	t.Parallel()
	c := api.Config{ReadAuth: []api.Credential{{Credential: server.Credential{Username: "r", Password: "p"}}, limited("shop", "shop")}, WriteAuth: []api.Credential{{Credential: server.Credential{Bearer: "w"}}}}
	eachDatabase(t, c, fakeKind{}, func(t *testing.T, s *site) {
		var err error
		c := c
		c.Runs, err = s.Pages(t.Context(), "/runs")
		check(t, err)
		s.handler, err = api.New(s.Scheduler, c)
		check(t, err)
		const reader = "Authorization: Basic cjpw"
		if w := s.ask(t, "GET", "/runs/", "", reader); w.Code != 200 || !strings.Contains(w.Body.String(), "<html") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if w := s.ask(t, "GET", "/runs/api/jobs?state=running", "", reader); w.Code != 200 || strings.TrimSpace(w.Body.String()) != `{"data":[]}` {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		s.want(t, 401, "GET", "/runs/", "")
		s.want(t, 401, "GET", "/runs/api/jobs?state=running", "")
		s.want(t, 403, "GET", "/runs/", "", "Authorization: Bearer w")
		s.want(t, 403, "GET", "/runs/", "", asShop)
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH"} {
			s.want(t, 405, method, "/runs/api/jobs/cancel", `{"ids": ["1"]}`, "Authorization: Bearer w")
		}
	})
}
