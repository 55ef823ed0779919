package console

import (
	"fmt"
	"io"
	"net/http"
	"time"
)

// getBody answers requests for "/body" with the body of an entity, of any size. Whatever its media type is, browsers
// save it to a file and do not interpret it. The connection is closed early if the page turns out to be damaged.
func (c *Console) getBody(w http.ResponseWriter, r *http.Request) error {
	ref, err := parseRef(r)
	if err != nil {
		return err
	}
	o, err := c.openPage(r.Context(), ref.Feed, ref.Page)
	if err != nil {
		return err
	}
	defer o.close()
	part, err := o.part(ref.Index)
	if err != nil {
		return err
	}
	if part.Stream == nil {
		if err := o.verify(); err != nil {
			return err
		}
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s-%d-%d.body"`, ref.Feed, ref.Page, ref.Index))
	h.Set("Cache-Control", "private, no-cache")
	switch {
	case r.Method == http.MethodHead:
		return nil
	case part.Stream == nil:
		_, err = pieces{w}.Write(part.Body)
	default:
		if _, err = io.Copy(pieces{w}, part.Stream); err == nil {
			err = o.verify()
		}
	}
	if err != nil { // the answer has no Content-Length, so a client notices that it is not complete
		c.log.WarnContext(r.Context(), "download of a body was interrupted", "feed", ref.Feed, "page", ref.Page, "entity", ref.Index, "error", err)
		panic(http.ErrAbortHandler)
	}
	return nil
}

// pieces gives the client sendTime to receive each piece of a body, so that a client that stalls does not keep the
// page open.
type pieces struct{ http.ResponseWriter }

func (w pieces) Write(p []byte) (int, error) {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(sendTime)) // not supported by all servers
	return w.ResponseWriter.Write(p)
}
