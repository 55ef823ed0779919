package roundtrip

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// OK reports whether a status is 2xx or 304, which means that the response is what was requested.
func OK(status int) bool { return status/100 == 2 || status == http.StatusNotModified }

// maxJSON limits a response that is decoded as a whole, in bytes.
const maxJSON = 64 << 20

// JSON decodes a response of at most 64 MiB into v, unless v is nil. malformed wraps the error if
// the response is complete but cannot be decoded.
func JSON(body io.Reader, v any, malformed func(error) error) error {
	data, err := io.ReadAll(io.LimitReader(body, maxJSON+1))
	switch {
	case err != nil:
		return err
	case len(data) > maxJSON:
		return malformed(fmt.Errorf("more than %d bytes", maxJSON))
	case v == nil:
		return nil
	}
	if err := json.Unmarshal(data, v); err != nil {
		return malformed(err)
	}
	return nil
}

// Failure returns the body of a response whose status is an error, up to the given number of bytes, and closes it. A
// body that is cut off may have said what the status alone does not, such as what was not found. Failure then returns
// an error that wraps that of the body, unless the status is [Retryable]: such a status is enough, and both results
// are nil.
func Failure(resp *http.Response, most int64) ([]byte, error) {
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, most))
	switch {
	case err == nil:
		return data, nil
	case Retryable(resp.StatusCode, nil):
		return nil, nil
	}
	return nil, fmt.Errorf("response with status %d: %w", resp.StatusCode, err)
}
