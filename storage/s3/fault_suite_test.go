package s3_test

import (
	"context"
	"net/http"
	"regexp"
	"sync/atomic"
	"testing"

	"github.com/feedctl/feedctl/internal/s3fault"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/observe"
	"github.com/feedctl/feedctl/storage/s3"
	"github.com/feedctl/feedctl/storage/storagetest"
)

// suiteEvery is the distance between requests with a fault. It is coprime to the number of requests
// of every method.
const suiteEvery = 7

// contended matches keys that several writers write concurrently. If a request to write such a key
// has a fault, and the driver then finds another writer's object, the outcome is unknown: the write
// may have taken effect before the other one.
var contended = regexp.MustCompile("race/|counter-|all/in/one")

// skipped matches tests of the suite that send many similar requests. TestRandomFaults also
// increments a counter, with more faults.
var skipped = regexp.MustCompile("/(shallow/.*|race_to_create|race_to_increment)$")

// TestStoreOverFaults runs the suite while every seventh request has a fault that the driver must
// hide. The kinds of faults take turns.
func TestStoreOverFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the whole contract again")
	}
	bed := newFaultBed(t)
	var hidden []faultCase
	for _, f := range faultCases(bed.elsewhere) {
		if f.hidden && f.late == nil {
			hidden = append(hidden, f)
		}
	}
	config := bed.config
	config.Memory, config.PartSize = 0, 0 // the defaults, with which every object can be read whole
	var stores, all, faults, turn atomic.Int64
	storagetest.Run(t, func(t *testing.T) storage.Store {
		if skipped.MatchString(t.Name()) && !*allFaults {
			t.Skip("only with -all-faults")
		}
		config := config
		config.Prefix = bed.config.Prefix + "/" + bed.key()
		var requests atomic.Int64
		requests.Store(stores.Add(1)) // so that the faults are in different requests for each store
		store, err := openOver(t.Context(), config, func(r s3fault.Request) s3fault.Fault {
			all.Add(1)
			if requests.Add(1)%suiteEvery != 0 || !r.Operation.Reads() && contended.MatchString(r.Path) {
				return nil
			}
			for range hidden { // the next applicable one
				if f := hidden[int(turn.Add(1))%len(hidden)]; f.fits(r.Operation) {
					faults.Add(1)
					return onSmall(f)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return observe.Wrap(asking{store}, func(context.Context, observe.Operation) {})
	}, storagetest.Options{Properties: properties, LargerSizes: true})
	t.Logf("%d faults in %d requests", faults.Load(), all.Load())
}

// An asking store repeats a conditional write if its outcome is unknown because of a fault, as a
// caller that needs the outcome would.
type asking struct{ *s3.Store }

func (a asking) Create(ctx context.Context, key string, meta storage.Meta, body storage.Body) (storage.Version, error) {
	version, err := a.Store.Create(ctx, key, meta, body)
	if isUnknown(ctx, err) {
		return a.Store.Create(ctx, key, meta, body)
	}
	return version, err
}

func (a asking) Append(ctx context.Context, key string, at storage.Version, meta storage.Meta, tail storage.Body) (storage.Version, error) {
	version, err := a.Store.Append(ctx, key, at, meta, tail)
	if isUnknown(ctx, err) {
		return a.Store.Append(ctx, key, at, meta, tail)
	}
	return version, err
}

func (a asking) Replace(ctx context.Context, key string, at storage.Version, meta storage.Meta, body storage.Body) (storage.Version, error) {
	version, err := a.Store.Replace(ctx, key, at, meta, body)
	if isUnknown(ctx, err) {
		return a.Store.Replace(ctx, key, at, meta, body)
	}
	return version, err
}

func isUnknown(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() == nil && !isDefinite(err)
}

// onSmall restricts a fault to short bodies if the fault is detected only at the end of a long
// body, or holds the body in memory, which the suite measures.
func onSmall(f faultCase) s3fault.Fault {
	if !f.corrupts && !f.twice {
		return f.fault
	}
	return func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if f.twice {
			if r.ContentLength > faultMemory/16 {
				return next.RoundTrip(r)
			}
			return f.fault(next, r)
		}
		response, err := next.RoundTrip(r)
		if err != nil || response.ContentLength > faultMemory/16 {
			return response, err
		}
		return f.fault(answered{response}, r)
	}
}

// answered is a transport that returns a response that the server has already sent.
type answered struct{ response *http.Response }

func (a answered) RoundTrip(*http.Request) (*http.Response, error) { return a.response, nil }
