package s3

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/storage"
)

// options changes one request.
type options = func(*s3.Options)

const (
	maxRedirects = 3
	// maxBackoff is the longest wait, as a multiple of the first wait.
	maxBackoff = 100
	// throttleBackoff is the factor by which waits are longer when the server is busy.
	throttleBackoff = 10
	// maxDamaged is how many times a damaged object is read before the driver gives up.
	maxDamaged = 5
)

// send sends one request. It follows redirects, signing and sending the request again,
// and renews credentials once if the server reports that they have expired.
func (s *Store) send(ctx context.Context, do func(...options) error) error {
	var opts []options
	refreshed := false
	for hop := 0; ; {
		if _, err := s.credentials.Retrieve(ctx); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if s.authorized.Load() {
				return fmt.Errorf("%w: %v", errRenew, err) //nolint:errorlint // the provider's error must not be classified
			}
			return fmt.Errorf("%w: no credentials: %w; %s", storage.ErrPermission, err, credentialsAdvice)
		}
		s.authorized.Store(true)
		err := do(opts...)
		if err == nil || codeOf(err) != "" {
			s.answered.Store(true)
		}
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		cache, canRefresh := s.credentials.(*aws.CredentialsCache)
		switch location := s.redirect(err); {
		case location != nil && hop < maxRedirects:
			hop++
			opts = []options{redirected(location)}
		case expired(err) && canRefresh && !refreshed:
			refreshed = true
			cache.Invalidate()
		default:
			return err
		}
	}
}

// read is like repeat, but explains errors to the caller. A 404 that is not from an S3 server means
// that the URL is wrong, unless an S3 server has responded before, in which case the fault may be
// transient.
func (s *Store) read(ctx context.Context, do func(...options) error) error {
	err := s.repeat(ctx, do)
	if statusOf(err) == http.StatusNotFound && codeOf(err) == "" && !s.answered.Load() {
		return fmt.Errorf("%w: %w", storage.ErrPermission, explain(err))
	}
	if a := classify(err); err != nil && ctx.Err() == nil && (a == again || a == later) && !errors.Is(err, ErrCorrupt) {
		return fmt.Errorf("%w: %w", storage.ErrUnavailable, explain(err))
	}
	return explain(err)
}

// repeat sends an idempotent request until it succeeds or fails for good.
func (s *Store) repeat(ctx context.Context, do func(...options) error) error {
	damaged := 0
	for attempt := 1; ; attempt++ {
		err := s.send(ctx, do)
		if errors.Is(err, ErrCorrupt) {
			damaged++
		}
		a := classify(err)
		if err == nil || ctx.Err() != nil || a != again && a != later || attempt == s.config.Attempts || damaged == maxDamaged {
			return err
		}
		if err := s.pause(ctx, attempt, err); err != nil {
			return err
		}
	}
}

// pause waits before the next attempt, for a random time or, if longer, for the time that a busy
// server asks for; maxBackoff limits both.
func (s *Store) pause(ctx context.Context, attempt int, err error) error {
	pauses := backoff.Backoff{Min: s.config.Backoff, Max: s.config.Backoff * maxBackoff}
	least := time.Duration(0)
	if throttled(err) {
		pauses.Min *= throttleBackoff
		least = min(backoff.RetryAfter(headerOf(err)), pauses.Max)
	}
	return backoff.Sleep(ctx, max(least, pauses.After(attempt)))
}

// redirected sends a request to another server.
func redirected(location *url.URL) options {
	return addMiddleware(func(stack *middleware.Stack) error {
		return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("FeedctlRedirect", func(
			ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler,
		) (middleware.FinalizeOutput, middleware.Metadata, error) {
			if request, ok := in.Request.(*smithyhttp.Request); ok {
				request.URL.Scheme, request.URL.Host = location.Scheme, location.Host
				request.URL.Path, request.URL.RawPath = location.Path, location.RawPath
			}
			return next.HandleFinalize(ctx, in)
		}), "ResolveEndpointV2", middleware.After)
	})
}

// hashed signs a request with the SHA-256 of its body, in hexadecimal. The server then checks the
// body, even over TLS, and the SDK does not compute the SHA-256 again.
func hashed(sum string) options {
	return addMiddleware(func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("FeedctlPayloadHash", func(
			ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
		) (middleware.InitializeOutput, middleware.Metadata, error) {
			return next.HandleInitialize(v4.SetPayloadHash(ctx, sum), in)
		}), middleware.Before)
	})
}

func addMiddleware(add func(*middleware.Stack) error) options {
	return func(o *s3.Options) { o.APIOptions = append(o.APIOptions, add) }
}

// observe counts the requests, and updates the clock from the responses.
func (s *Store) observe(stack *middleware.Stack) error {
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("FeedctlObserve", func(
		ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler,
	) (middleware.DeserializeOutput, middleware.Metadata, error) {
		s.requests.count(awsmiddleware.GetOperationName(ctx))
		out, metadata, err := next.HandleDeserialize(ctx, in)
		if response, ok := out.RawResponse.(*smithyhttp.Response); ok && response != nil && response.Response != nil {
			s.clock.see(response.Header)
		}
		return out, metadata, err
	}), middleware.After)
}

// requests counts requests by operation.
type requests struct {
	mu   sync.Mutex
	sent map[string]uint64
}

func (r *requests) count(operation string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sent == nil {
		r.sent = make(map[string]uint64)
	}
	r.sent[operation]++
}

// Requests implements [storage.Counter]. The operations have the names of the S3 API,
// such as "PutObject".
func (s *Store) Requests() map[string]uint64 {
	s.requests.mu.Lock()
	defer s.requests.mu.Unlock()
	return maps.Clone(s.requests.sent)
}

// redirect returns the location to which the server redirects the request, or nil. It
// ignores redirects from https to http.
func (s *Store) redirect(err error) *url.URL {
	if status := statusOf(err); status != http.StatusTemporaryRedirect && status != http.StatusPermanentRedirect {
		return nil
	}
	location, perr := url.Parse(headerOf(err).Get("Location"))
	plain := strings.HasPrefix(s.config.Endpoint, "http:")
	if perr != nil || location.Host == "" || location.Scheme != "https" && (location.Scheme != "http" || !plain) {
		return nil
	}
	return location
}
