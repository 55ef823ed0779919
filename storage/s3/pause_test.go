package s3

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/feedctl/feedctl/storage"
)

// answered returns the error for a response, as the SDK creates it.
func answered(status int, code string, header http.Header) error {
	cause := errors.New("no code")
	if code != "" {
		cause = &smithy.GenericAPIError{Code: code}
	}
	return fmt.Errorf("operation: %w", &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status, Header: header}}, Err: cause,
	})
}

// TestPause: a busy server may request a pause, up to a limit.
func TestPause(t *testing.T) {
	s := &Store{config: Config{}.withDefaults()}
	longest := defaultBackoff * maxBackoff
	for _, c := range []struct {
		err         error
		attempt     int
		least, most time.Duration
	}{
		{answered(503, "SlowDown", http.Header{"Retry-After": {"3"}}), 1, 3 * time.Second, 3 * time.Second},
		{answered(429, "", http.Header{"Retry-After": {"2"}}), 1, 2 * time.Second, 2 * time.Second},
		{answered(503, "SlowDown", http.Header{"Retry-After": {"3600"}}), 1, longest, longest},
		{answered(503, "SlowDown", http.Header{"Retry-After": {"-1"}}), 1, 0, throttleBackoff * defaultBackoff},
		{answered(503, "SlowDown", nil), 1, 0, throttleBackoff * defaultBackoff},
		{answered(500, "InternalError", http.Header{"Retry-After": {"3"}}), 1, 0, defaultBackoff},
		{errors.New("no answer"), 2, 0, 2 * defaultBackoff},
		{errors.New("no answer"), 1000, 0, longest},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			if err := s.pause(t.Context(), c.attempt, c.err); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(begin); waited < c.least || waited > c.most {
				t.Errorf("after %v, attempt %d: waited %v, want %v to %v", c.err, c.attempt, waited, c.least, c.most)
			}
		})
	}
}

// TestClassify checks the meaning of the responses to a request.
func TestClassify(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		want   answer
	}{
		{200, "InternalError", again}, // CompleteMultipartUpload
		{400, "RequestTimeout", again},
		{400, "BadDigest", again},
		{404, "NoSuchUpload", again},
		{404, "", again}, // the response was truncated
		{408, "", again},
		{409, "ConditionalRequestConflict", again},
		{409, "Conflict", again},
		{429, "TooManyRequests", again},
		{499, "UnknownError", again},
		{500, "InternalError", again},
		{502, "", again},
		{503, "SlowDown", again},
		{504, "", again},
		{409, "ObjectParentIsFile", later},
		{403, "RequestTimeTooSkewed", later},
		{412, "PreconditionFailed", preconditionFailed},
		{412, "", preconditionFailed},
		{404, "NoSuchKey", missing},
		{404, "NotFound", missing},
		{301, "PermanentRedirect", refused},
		{400, "InvalidArgument", refused},
		{400, "MetadataTooLarge", refused},
		{403, "AccessDenied", refused},
		{403, "QuotaExceeded", refused},
		{404, "NoSuchBucket", refused},
		{404, "PageNotFound", refused},
		{404, unknownUser, refused},
		{501, "NotImplemented", refused},
		{507, "XMinioStorageFull", refused},
	} {
		if got := classify(answered(c.status, c.code, nil)); got != c.want {
			t.Errorf("%d %s: got %d, want %d", c.status, c.code, got, c.want)
		}
	}
	for err, want := range map[error]answer{
		errors.New("connection reset"):                          again,
		damaged(errDigest):                                      again,
		damaged(fmt.Errorf("record: %w", storage.ErrLayout)):    refused,
		bodyError{errors.New("the disk is broken")}:             refused,
		fmt.Errorf("no credentials: %w", storage.ErrPermission): refused,
	} {
		if got := classify(err); got != want {
			t.Errorf("%v: got %d, want %d", err, got, want)
		}
	}
}
