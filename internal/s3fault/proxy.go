package s3fault

import (
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// Proxy returns a handler that sends requests on to the server at the URL and asks
// decide about each, as [Wrap] does, for clients in other processes. It passes
// on the Host header, which S3 clients sign. Where a client in this process would
// get an error, one of the proxy has its connection broken.
func Proxy(server *url.URL, decide func(Request) Fault) http.Handler {
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	return &httputil.ReverseProxy{
		Transport:     Wrap(transport, decide),
		FlushInterval: -1, // a connection that breaks has shown what came before
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = server.Scheme, server.Host
			r.Out.Host = r.In.Host
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
}
