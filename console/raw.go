package console

import "net/http"

// entityRoutes returns the pages about entities.
func (c *Console) entityRoutes() []route {
	return []route{
		{path: "/search", nav: "Search", page: "search", get: c.getSearch},
		{path: "/entity", page: "entity", get: c.getEntity},
		{path: "/history", page: "keyhistory", get: c.getKeyHistory},
		{path: "/body", raw: c.getBody},
	}
}

// answer returns the handler of requests for a route that is not a page.
func (c *Console) answer(route route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r, err := c.mayShow(w.Header(), r, &route)
		if err == nil {
			err = route.raw(w, r)
		}
		if err != nil {
			c.fail(w, r, err)
		}
	}
}
