package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/kintotest"
)

// TestKintoBucket kills a bridge of a bucket with SIGKILL while records are being written and
// collections are created. Then each collection must have a feed that equals it and has each change
// only once.
func TestKintoBucket(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(newSeed(t), 0))
	fake := kintotest.NewFake(t)
	fake.Page = 7
	first := fake.NewCollection(t)
	bucket, _, _ := strings.Cut(first, "/collections/")
	store, names := t.TempDir(), []string{"c"}
	feeds := func(name string) string { return filepath.Join(store, "objects", "feeds", "k-"+name) }
	bridge := &process{t: t, name: "bridge", args: []string{
		"bridge", "kinto", bucket, "file:" + store + "#k-*", "--follow", "--interval", "50ms", "--index", t.TempDir(), "--log-level", "error",
	}}
	change := func() {
		record := fmt.Sprint(bucket, "/collections/", names[rng.IntN(len(names))], "/records/r", rng.IntN(10))
		if rng.IntN(4) == 0 {
			kintotest.Try(t, http.MethodDelete, record, "")
		} else {
			kintotest.Send(t, http.MethodPut, record, fmt.Sprintf(`{"data":{"n":%d}}`, rng.Int64N(1<<53)))
		}
	}
	bridge.start()
	t.Cleanup(func() { bridge.kill(os.Kill) })
	for k := range 5 {
		name := fmt.Sprint("c", k)
		names = append(names, name)
		kintotest.Send(t, http.MethodPut, bucket+"/collections/"+name, "")
		kintotest.Send(t, http.MethodPut, bucket+"/collections/"+name+"/records/r", `{"data":{}}`)
		for range 10 {
			change()
		}
		waitFor(t, bridge.stderr.String, func() bool {
			_, err := os.Stat(feeds(name))
			return err == nil
		})
		for range rng.IntN(10) {
			change()
		}
		if bridge.ended() {
			t.Fatalf("bridge has ended: %v\n%s", bridge.err, bridge.stderr)
		}
		bridge.kill(os.Kill)
		bridge.start()
	}
	bridge.kill(os.Kill)
	feedctl(t, "bridge", "kinto", bucket, "file:"+store+"#k-*")
	for _, name := range names {
		if _, err := os.Stat(feeds(name)); err != nil {
			t.Errorf("no feed of %s: %v", name, err)
			continue
		}
		feedctl(t, "verify", "file:"+store+"#k-"+name)
		feedctl(t, "verify", "file:"+store+"#k-"+name, "--against", "kinto:"+bucket+"/collections/"+name, "--deep")
	}
}
