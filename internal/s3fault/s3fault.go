// Package s3fault injects the faults of networks, proxies and servers between an S3
// client and its server: within the client's process as an [http.RoundTripper]
// ([Wrap]), or between processes as a reverse proxy ([Proxy]).
package s3fault

import (
	"net/http"
	"strings"
	"sync"
)

// A Request is an HTTP request about to be sent.
type Request struct {
	Operation Operation
	Path      string // of the URL; with path-style addressing, the bucket precedes the key
	Prefix    string // of a listing
	N         int    // 1 for the first request, 2 for the next
	Attempt   int    // 1 for the first request with this operation and path
}

// An Operation is the operation of a request, by its name in the S3 API.
type Operation string

// The operations on objects.
const (
	PutObject               Operation = "PutObject"
	CopyObject              Operation = "CopyObject"
	GetObject               Operation = "GetObject"
	HeadObject              Operation = "HeadObject"
	DeleteObject            Operation = "DeleteObject"
	DeleteObjects           Operation = "DeleteObjects"
	ListObjectsV2           Operation = "ListObjectsV2"
	CreateMultipartUpload   Operation = "CreateMultipartUpload"
	UploadPart              Operation = "UploadPart"
	UploadPartCopy          Operation = "UploadPartCopy"
	CompleteMultipartUpload Operation = "CompleteMultipartUpload"
	AbortMultipartUpload    Operation = "AbortMultipartUpload"
	ListMultipartUploads    Operation = "ListMultipartUploads"
	ListParts               Operation = "ListParts"
	Other                   Operation = "Other"
)

// Reads reports whether the operation only reads.
func (o Operation) Reads() bool {
	switch o {
	case GetObject, HeadObject, ListObjectsV2, ListMultipartUploads, ListParts:
		return true
	}
	return false
}

// A Fault handles a request: it forwards the request, or not, or twice, and returns any
// response. It closes the request's body, as any [http.RoundTripper] does.
type Fault func(next http.RoundTripper, r *http.Request) (*http.Response, error)

// Wrap returns a RoundTripper that calls decide, possibly concurrently, for each request. If decide
// returns no fault, the request is passed to next.
func Wrap(next http.RoundTripper, decide func(Request) Fault) http.RoundTripper {
	return &faulty{next: next, decide: decide, attempts: make(map[target]int)}
}

type target struct {
	operation Operation
	path      string
}

type faulty struct {
	next   http.RoundTripper
	decide func(Request) Fault

	mu       sync.Mutex
	n        int
	attempts map[target]int
}

func (f *faulty) RoundTrip(r *http.Request) (*http.Response, error) {
	if fault := f.decide(f.request(r)); fault != nil {
		return fault(f.next, r)
	}
	return f.next.RoundTrip(r)
}

func (f *faulty) request(r *http.Request) Request {
	t := target{operationOf(r), r.URL.Path}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	f.attempts[t]++
	return Request{
		Operation: t.operation,
		Path:      t.path,
		Prefix:    r.URL.Query().Get("prefix"),
		N:         f.n,
		Attempt:   f.attempts[t],
	}
}

// operationOf distinguishes operations as a server does: by method, query and the header that only
// copies have.
func operationOf(r *http.Request) Operation {
	query := r.URL.Query()
	copies := r.Header.Get("X-Amz-Copy-Source") != ""
	switch r.Method {
	case http.MethodPut:
		switch {
		case query.Has("partNumber") && copies:
			return UploadPartCopy
		case query.Has("partNumber"):
			return UploadPart
		case copies:
			return CopyObject
		}
		return PutObject
	case http.MethodPost:
		switch {
		case query.Has("uploads"):
			return CreateMultipartUpload
		case query.Has("uploadId"):
			return CompleteMultipartUpload
		case query.Has("delete"):
			return DeleteObjects
		}
	case http.MethodDelete:
		if query.Has("uploadId") {
			return AbortMultipartUpload
		}
		return DeleteObject
	case http.MethodHead:
		return HeadObject
	case http.MethodGet:
		switch {
		case query.Has("list-type"):
			return ListObjectsV2
		case query.Has("uploads"):
			return ListMultipartUploads
		case query.Has("uploadId"):
			return ListParts
		case strings.HasSuffix(r.URL.Path, "/"):
			return Other // an operation on a bucket or on the account
		}
		return GetObject
	}
	return Other
}
