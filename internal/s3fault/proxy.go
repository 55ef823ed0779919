package s3fault

import (
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// Proxy returns a handler that forwards requests to the server at the URL and calls
// decide for each, as [Wrap] does, for clients in other processes. It forwards the Host
// header, which S3 clients sign. Where a client of Wrap would get an error, the
// connection is closed.
func Proxy(server *url.URL, decide func(Request) Fault) http.Handler {
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	return &httputil.ReverseProxy{
		Transport:     Wrap(transport, decide),
		FlushInterval: -1, // so that the client gets the data before a connection is closed
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = server.Scheme, server.Host
			r.Out.Host = r.In.Host
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
}
