package lintest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
)

// An ObjectLoad is a load of concurrent clients on a few objects: all operations of
// [storage.Store], most of them at versions that the clients have seen.
type ObjectLoad struct {
	Seed       uint64
	Prefix     string // of all keys; unique to each load on a store
	Keys       int
	Clients    int
	Operations int // of each client
	// Keep omits deletes.
	Keep bool
}

// Check has the clients work on the given handles of one store, sharing them if there are
// fewer handles than clients, and returns an error unless their results are linearizable. An operation with an error
// that package storage does not define has an unknown outcome, since a fault may have caused the error.
func (l ObjectLoad) Check(ctx context.Context, handles ...storage.Store) error {
	h := &history{}
	keys := make([]string, l.Keys)
	for n := range keys {
		keys[n] = fmt.Sprintf("%s/object-%d", l.Prefix, n)
	}
	var clients sync.WaitGroup
	for n := range l.Clients {
		client := &objectClient{
			recorder: recorder{history: h, client: n, store: handles[n%len(handles)], random: rand.New(rand.NewPCG(l.Seed, uint64(n)))},
			keys:     keys, known: map[string]storage.Version{}, keep: l.Keep,
		}
		clients.Go(func() {
			for k := range l.Operations {
				client.operate(ctx, fmt.Sprintf("%d.%d", client.client, k))
			}
		})
	}
	clients.Wait()
	return checkObjects(h.operations)
}

type objectClient struct {
	recorder
	keys  []string
	known map[string]storage.Version // the versions seen last
	keep  bool
}

// operate performs one operation. The mark identifies the state that it may create.
func (c *objectClient) operate(ctx context.Context, mark string) {
	key := c.keys[c.random.IntN(len(c.keys))]
	write := objectCall{key: key, mark: mark, bytes: "<" + mark + ">" + padding(c.random)}
	see := func(v storage.Version) {
		if v != "" {
			c.known[key] = v
		}
	}
	switch dice := c.random.IntN(100); {
	case dice < 15:
		see(c.get(ctx, objectCall{verb: fault.Get, key: key, length: -1}))
	case dice < 25:
		see(c.get(ctx, objectCall{verb: fault.Get, key: key, offset: c.random.Int64N(40), length: c.random.Int64N(40)}))
	case dice < 40:
		see(c.stat(ctx, objectCall{verb: fault.Stat, key: key}))
	case dice < 45:
		c.list(ctx, c.keys)
	case dice < 50 && !c.keep:
		c.write(ctx, objectCall{verb: fault.Delete, key: key})
	case dice < 65 || c.known[key] == "":
		write.verb = fault.Create
		see(c.write(ctx, write))
	case dice < 85:
		write.verb, write.at = fault.Append, c.known[key]
		see(c.write(ctx, write))
	default:
		write.verb, write.at = fault.Replace, c.known[key]
		see(c.write(ctx, write))
	}
}
