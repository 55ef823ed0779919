package recorded_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/recorded"
)

// kernel is a ResponseWriter with a ReadFrom, which simulates sending without copying.
type kernel struct {
	*httptest.ResponseRecorder
	read bool
}

func (k *kernel) ReadFrom(src io.Reader) (int64, error) {
	k.read = true
	return io.Copy(k.ResponseRecorder, src)
}

func TestResponse(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer func(http.ResponseWriter)
		status int
		bytes  int64
	}{
		"nothing":       {func(http.ResponseWriter) {}, 200, 0},
		"a body":        {func(w http.ResponseWriter) { _, _ = w.Write([]byte("abc")) }, 200, 3},
		"a status":      {func(w http.ResponseWriter) { w.WriteHeader(404) }, 404, 0},
		"two statuses":  {func(w http.ResponseWriter) { w.WriteHeader(404); w.WriteHeader(500) }, 404, 0},
		"informational": {func(w http.ResponseWriter) { w.WriteHeader(103) }, 200, 0},
		"early hints":   {func(w http.ResponseWriter) { w.WriteHeader(103); w.WriteHeader(304) }, 304, 0},
	} {
		r := &recorded.Response{ResponseWriter: httptest.NewRecorder()}
		if test.answer(r); r.Status() != test.status || r.Bytes != test.bytes {
			t.Errorf("%s: status %d, %d bytes; want %d, %d", name, r.Status(), r.Bytes, test.status, test.bytes)
		}
	}
	to := &kernel{ResponseRecorder: httptest.NewRecorder()}
	r := &recorded.Response{ResponseWriter: to}
	if n, err := io.Copy(r, strings.NewReader("abc")); n != 3 || err != nil || r.Bytes != 3 {
		t.Errorf("%d, %v, %d bytes", n, err, r.Bytes)
	}
	n, err := io.Copy(r, io.LimitReader(strings.NewReader("abc"), 3)) // a reader that does not implement io.WriterTo
	if n != 3 || err != nil || r.Bytes != 6 || !to.read {
		t.Errorf("%d, %v, %d bytes; without copying: %t", n, err, r.Bytes, to.read)
	}
	if err := http.NewResponseController(r).Flush(); err != nil || !to.Flushed {
		t.Error("the response cannot be flushed")
	}
}
