package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/feedctl/feedctl/storage"
)

// ErrCorrupt means that the server repeatedly sent bytes other than those written. Restore the
// object from another version in the bucket or from a copy.
var ErrCorrupt = errors.New("object is corrupt")

// errRenew means that credentials were available before, but cannot be renewed at present. The
// request was not sent.
var errRenew = errors.New("renew credentials")

const credentialsAdvice = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or use the role of the machine"

// An answer classifies an error from a request.
type answer int

const (
	again              answer = iota // outcome unknown: the request may have taken effect
	later                            // had no effect; a retry may succeed
	preconditionFailed               // the precondition failed
	missing                          // the object does not exist
	refused                          // had no effect; a retry would fail, too
)

// unknownUser is the code of versitygw, with status 404, for an unknown access key.
const unknownUser = "XAdminUserNotFound"

// codeOfKMS is the prefix of the error codes that S3 passes on from KMS.
const codeOfKMS = "KMS."

// statusGaveUp is the status of MinIO for a request that timed out waiting for a lock.
const statusGaveUp = 499

// passing lists the codes of transient errors among those with a 4xx status.
var passing = []string{
	"RequestTimeout", "BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch",
	"XAmzContentChecksumMismatch", "InvalidDigest", "OperationAborted", "ConditionalRequestConflict", "NoSuchUpload",
}

// blocked lists the codes for requests that had no effect but may succeed later. After the first of
// these, the SDK corrects its clock. versitygw returns the others while a directory is being
// created or removed.
var blocked = []string{"RequestTimeTooSkewed", "ExistingObjectIsDirectory", "ObjectParentIsFile"}

func classify(err error) answer {
	code, status := codeOf(err), statusOf(err)
	switch {
	case isBodyError(err), errors.Is(err, storage.ErrPermission), errors.Is(err, storage.ErrLayout):
		return refused
	case errors.Is(err, errRenew):
		return later
	case slices.Contains(blocked, code):
		return later
	case status == http.StatusPreconditionFailed, code == "PreconditionFailed":
		return preconditionFailed
	case code == "NoSuchBucket", code == unknownUser:
		return refused
	case slices.Contains(passing, code), throttled(err):
		return again
	case code == "NoSuchKey", code == "NotFound":
		return missing
	}
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests, statusGaveUp:
		return again
	case http.StatusNotImplemented, http.StatusInsufficientStorage:
		return refused
	}
	// A response without a code is truncated or comes from a proxy.
	if status >= 300 && status < 500 && code != "" {
		return refused
	}
	return again
}

// explain makes err match an error of package storage, if one applies, and adds a remedy.
func explain(err error) error {
	// Errors about credentials have been explained already; any status in them is not from S3.
	if err == nil || errors.Is(err, storage.ErrPermission) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	code, status := codeOf(err), statusOf(err)
	wrap := func(sentinel error, advice string) error { return fmt.Errorf("%w: %s: %w", sentinel, advice, err) }
	switch code {
	case "NoSuchKey", "NotFound":
		return fmt.Errorf("%w: %w", storage.ErrNotFound, err)
	case "NoSuchBucket":
		return wrap(storage.ErrNoStore, "the bucket does not exist; create it, or correct the URL")
	case "InvalidBucketName":
		return wrap(storage.ErrPermission, "the bucket name is invalid; correct the URL")
	case "QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "InsufficientStorage":
		return wrap(storage.ErrFull, "make room or raise the quota")
	case "AccessDenied", "AllAccessDisabled", "AccountProblem":
		return wrap(storage.ErrPermission, "allow s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket;"+
			" without the last, S3 denies access to objects that do not exist")
	case "ExpiredToken", "TokenRefreshRequired", "RequestExpired", "InvalidToken":
		return wrap(storage.ErrPermission, "get new credentials")
	case "SignatureDoesNotMatch", "InvalidAccessKeyId", unknownUser:
		return wrap(storage.ErrPermission, "correct the credentials; "+credentialsAdvice)
	case "RequestTimeTooSkewed":
		return wrap(storage.ErrPermission, "set the clock of this machine")
	case "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException":
		if region := regionOf(err); region != "" {
			return wrap(storage.ErrPermission, fmt.Sprintf("the bucket is in region %s; add region=%[1]s to the URL", region))
		}
		return wrap(storage.ErrPermission, "the bucket is in another region; set region= in the URL")
	}
	if strings.HasPrefix(code, codeOfKMS) && classify(err) == refused {
		return wrap(storage.ErrPermission, "correct kms_key_id= in the URL, or allow the use of the key")
	}
	switch status {
	case http.StatusInsufficientStorage:
		return wrap(storage.ErrFull, "make room")
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		if classify(err) == refused {
			return wrap(storage.ErrPermission, "the server rejects the request; correct the bucket and the options in the URL")
		}
	case http.StatusUnauthorized, http.StatusForbidden:
		if classify(err) == refused {
			return wrap(storage.ErrPermission, "correct the credentials or the policy")
		}
		return fmt.Errorf("the response is not from an S3 server; does a proxy deny access?: %w", err)
	case http.StatusMovedPermanently:
		return wrap(storage.ErrPermission, "the bucket is elsewhere; correct region= or endpoint= in the URL")
	case http.StatusNotFound:
		return fmt.Errorf("the response is not from an S3 server; correct endpoint= in the URL: %w", err)
	}
	return err
}

// codeOf returns the error code of the response, or "" if the response has none. In this case, the
// SDK reports the name of the status as the code; codeOf ignores that name, so that a proxy's 404
// does not seem to be about an object.
func codeOf(err error) string {
	e, ok := errors.AsType[smithy.APIError](err)
	name := http.StatusText(statusOf(err))
	if !ok || e.ErrorCode() == strings.ReplaceAll(name, " ", "") && e.ErrorMessage() == name && headerOf(err).Get("X-Amz-Request-Id") == "" {
		return ""
	}
	return e.ErrorCode()
}

// headerOf returns the header of the response, if there was one.
func headerOf(err error) http.Header {
	e, ok := errors.AsType[*smithyhttp.ResponseError](err)
	if !ok || e.Response == nil || e.Response.Response == nil {
		return nil
	}
	return e.Response.Header
}

// statusOf returns the status of the response, or 0 if there was none.
func statusOf(err error) int {
	if e, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return e.HTTPStatusCode()
	}
	return 0
}

func regionOf(err error) string { return headerOf(err).Get("X-Amz-Bucket-Region") }

func throttled(err error) bool {
	_, ok := retry.DefaultThrottleErrorCodes[strings.TrimPrefix(codeOf(err), codeOfKMS)]
	return ok || statusOf(err) == http.StatusServiceUnavailable || statusOf(err) == http.StatusTooManyRequests
}

func expired(err error) bool {
	switch codeOf(err) {
	case "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired":
		return true
	}
	return false
}

// damaged makes err match [ErrCorrupt], unless it matches [storage.ErrLayout].
func damaged(err error) error {
	if errors.Is(err, storage.ErrLayout) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}
