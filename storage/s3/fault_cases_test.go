package s3_test

import (
	"flag"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/feedctl/feedctl/internal/s3fault"
	"github.com/feedctl/feedctl/storage"
)

// A faultCase is a fault, with the behaviour that is expected of the driver.
type faultCase struct {
	name  string
	fault s3fault.Fault
	late  *s3fault.Late // the request that the fault holds, to be released after the call; or nil
	twice bool          // the server receives the request twice
	alike bool          // the driver cannot tell this fault from another one
	// hidden means that the caller must not notice the fault.
	hidden bool
	// corrupts means that the fault changes the body; if the body is large, that is detected only
	// at its end.
	corrupts bool
	// sentinel is an error that the driver may return for this fault.
	sentinel error
	// only reports whether the fault applies to an operation; nil means that it applies to all.
	only func(s3fault.Operation) bool
}

func (c faultCase) fits(o s3fault.Operation) bool { return c.only == nil || c.only(o) }

func onReads(o s3fault.Operation) bool { return o.Reads() }

func onWrites(o s3fault.Operation) bool { return !o.Reads() }

func onObjects(o s3fault.Operation) bool {
	return o == s3fault.GetObject || o == s3fault.HeadObject
}

func onBodies(o s3fault.Operation) bool { return o == s3fault.GetObject }

func onConditional(o s3fault.Operation) bool {
	return o == s3fault.PutObject || o == s3fault.CompleteMultipartUpload
}

var allFaults = flag.Bool("all-faults", false, "test all faults, calls and tests of the suite, not a sample")

// distinctFaults returns one fault of each group that the driver cannot tell apart or, with
// -all-faults, all faults. TestClassify tests the grouping.
func distinctFaults(elsewhere *url.URL) []faultCase {
	return slices.DeleteFunc(faultCases(elsewhere), func(f faultCase) bool { return f.alike && !*allFaults })
}

// faultCases returns all faults that can be injected into one request.
func faultCases(elsewhere *url.URL) []faultCase {
	conflict := s3fault.Answer(http.StatusConflict, "ConditionalRequestConflict")
	internal := s3fault.Answer(http.StatusInternalServerError, "InternalError")
	timeout, reset := s3fault.Fail(s3fault.ErrTimeout()), s3fault.Fail(s3fault.ErrReset())
	late := new(s3fault.Late)
	cases := []faultCase{
		{name: "409 before", fault: conflict, hidden: true, only: onConditional},
		{name: "409 after", fault: s3fault.Landed(conflict), hidden: true, only: onConditional},
		{name: "sent twice", fault: s3fault.Twice(), twice: true, hidden: true},
		{name: "503 before", fault: s3fault.Answer(http.StatusServiceUnavailable, "SlowDown"), hidden: true},
		{name: "503 after", alike: true, fault: s3fault.Landed(s3fault.Answer(http.StatusServiceUnavailable, "SlowDown")), hidden: true},
		{name: "500 before", alike: true, fault: internal, hidden: true},
		{name: "500 after", fault: s3fault.Landed(internal), hidden: true},
		{name: "error in 200 before", alike: true, fault: s3fault.Answer(http.StatusOK, "InternalError"), hidden: true,
			only: func(o s3fault.Operation) bool { return o == s3fault.CompleteMultipartUpload }},
		{name: "error in 200 after", fault: s3fault.Landed(s3fault.Answer(http.StatusOK, "InternalError")), hidden: true,
			only: func(o s3fault.Operation) bool { return o == s3fault.CompleteMultipartUpload }},
		{name: "499", alike: true, fault: s3fault.Answer(499, ""), hidden: true},
		{name: "408", alike: true, fault: s3fault.Answer(http.StatusBadRequest, "RequestTimeout"), hidden: true},
		{name: "502 of a proxy", alike: true, fault: s3fault.Landed(s3fault.AnswerOfProxy(http.StatusBadGateway)), hidden: true},
		{name: "404 of a proxy before", fault: s3fault.AnswerOfProxy(http.StatusNotFound), hidden: true},
		{name: "404 of a proxy after", fault: s3fault.Landed(s3fault.AnswerOfProxy(http.StatusNotFound)), hidden: true},
		{name: "403 of a proxy after", fault: s3fault.Landed(s3fault.AnswerOfProxy(http.StatusForbidden)), hidden: true},
		{name: "timeout before", alike: true, fault: timeout, hidden: true},
		{name: "timeout after", fault: s3fault.Landed(timeout), hidden: true},
		{name: "reset before", fault: reset, hidden: true},
		{name: "reset after", alike: true, fault: s3fault.Landed(reset), hidden: true},
		{name: "EOF after", alike: true, fault: s3fault.Landed(s3fault.Fail(io.EOF)), hidden: true},
		{name: "late", fault: late.Hold(), late: late, hidden: true, only: onWrites},
		{name: "request cut at 0", alike: true, fault: s3fault.ResetRequest(0), hidden: true, only: onWrites},
		{name: "request cut at 5", fault: s3fault.ResetRequest(5), hidden: true, only: onWrites},
		{name: "answer reset at 0", alike: true, fault: s3fault.ResetResponse(0), hidden: true, only: onReads},
		{name: "answer reset at 5", fault: s3fault.ResetResponse(5), hidden: true},
		{name: "answer truncated at 0", fault: s3fault.Truncate(0), hidden: true, only: onReads},
		{name: "answer truncated at 5", alike: true, fault: s3fault.Truncate(5), hidden: true},
		{name: "answer shortened to 0", alike: true, fault: s3fault.Shorten(0), hidden: true, only: onBodies},
		{name: "answer shortened to 5", fault: s3fault.Shorten(5), hidden: true, only: onReads},
		{name: "bit flipped at the beginning", alike: true, fault: s3fault.FlipBody(0), hidden: true, corrupts: true, only: onBodies},
		{name: "bit flipped within", fault: s3fault.FlipBody(5), hidden: true, corrupts: true, only: onBodies},
		{name: "bit flipped near the end", fault: s3fault.FlipBody(-40), hidden: true, corrupts: true, only: onBodies},
		{name: "bit flipped at the end", alike: true, fault: s3fault.FlipBody(-1), hidden: true, corrupts: true, only: onBodies},
		{name: "metadata flipped at the beginning", fault: s3fault.FlipHeader("X-Amz-Meta-", 0), hidden: true, only: onObjects},
		{name: "metadata flipped within", alike: true, fault: s3fault.FlipHeader("X-Amz-Meta-", 20), hidden: true, only: onObjects},
		{name: "metadata flipped at the end", alike: true, fault: s3fault.FlipHeader("X-Amz-Meta-", -1), hidden: true, only: onObjects},
		{name: "Content-Type flipped", fault: s3fault.FlipHeader("Content-Type", 2), hidden: true, only: onObjects},
		{name: "Cache-Control flipped", alike: true, fault: s3fault.FlipHeader("Cache-Control", 2), hidden: true, only: onObjects},
		{name: "expired token", fault: s3fault.Answer(http.StatusForbidden, "ExpiredToken"), hidden: true, sentinel: storage.ErrPermission},
		{name: "clock skewed", fault: s3fault.Answer(http.StatusForbidden, "RequestTimeTooSkewed"), sentinel: storage.ErrPermission},
		{name: "moved for good", alike: true, fault: s3fault.Answer(http.StatusMovedPermanently, "PermanentRedirect"), sentinel: storage.ErrPermission},
		{name: "denied", fault: s3fault.Answer(http.StatusForbidden, "AccessDenied"), sentinel: storage.ErrPermission},
		{name: "full", fault: s3fault.Answer(http.StatusInsufficientStorage, "XMinioStorageFull"), sentinel: storage.ErrFull, only: onWrites},
		{name: "quota", alike: true, fault: s3fault.Answer(http.StatusForbidden, "QuotaExceeded"), sentinel: storage.ErrFull, only: onWrites},
		{name: "no such bucket", alike: true, fault: s3fault.Answer(http.StatusNotFound, "NoSuchBucket"), sentinel: storage.ErrNoStore},
		{name: "bad request", alike: true, fault: s3fault.Answer(http.StatusBadRequest, "InvalidArgument"), sentinel: storage.ErrPermission},
		{name: "not implemented", alike: true, fault: s3fault.Answer(http.StatusNotImplemented, "NotImplemented"), sentinel: storage.ErrPermission},
	}
	if elsewhere != nil {
		cases = append(cases,
			faultCase{name: "moved for now", fault: s3fault.Redirect(http.StatusTemporaryRedirect, elsewhere), hidden: true})
	}
	return cases
}
