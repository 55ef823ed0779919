package kinto

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/feedctl/feedctl/internal/roundtrip"
)

// A BatchRequest is one of the requests in a batch.
type BatchRequest struct {
	Method string            `json:"method"`
	Path   string            `json:"path"` // see [Collection.Path]
	Header map[string]string `json:"headers,omitempty"`
	Body   json.RawMessage   `json:"body,omitempty"` // {"data": {...}}
}

// A BatchResponse is the response to one of the requests in a batch.
type BatchResponse struct {
	Path   string            `json:"path"`
	Status int               `json:"status"`
	Header map[string]string `json:"headers"`
	Body   json.RawMessage   `json:"body"`
	// Err is nil if the status is 2xx or 304, and otherwise an [*Error].
	Err error `json:"-"`
}

// Batch sends several requests as one (Kinto API documentation, "Batch operations"). The number of
// requests is limited by [Root]'s BatchMaxRequests. There is a response for each request, in the same
// order.
//
// An error concerns the batch as a whole, whose outcome may then be unknown. If the server uses
// PostgreSQL, a response of status 5xx means that nothing was stored, and a response of status 409
// that nothing was stored for the requests before it, although their responses say 201. Other errors
// in responses do not affect the other requests.
func (s *Server) Batch(ctx context.Context, requests []BatchRequest) ([]BatchResponse, error) {
	body, err := json.Marshal(map[string][]BatchRequest{"requests": requests})
	if err != nil {
		return nil, fmt.Errorf("encode batch: %w", err)
	}
	var answer struct{ Responses []BatchResponse }
	q := Request{Method: http.MethodPost, Path: "/batch", Body: body}
	if _, err := s.JSON(ctx, q, &answer); err != nil {
		return nil, err
	}
	if len(answer.Responses) != len(requests) {
		return nil, s.malformed(q, fmt.Errorf("%d responses to %d requests", len(answer.Responses), len(requests)))
	}
	for i := range answer.Responses {
		if r := &answer.Responses[i]; !roundtrip.OK(r.Status) {
			r.Err = s.newError(requests[i].Method, s.root+requests[i].Path, r.Status, r.Body)
		}
	}
	return answer.Responses, nil
}
