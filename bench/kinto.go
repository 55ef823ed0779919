package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/kintotest"
)

// The data of the measurements with Kinto.
const (
	kintoRecordSize   = 400 // bytes of JSON
	kintoReal         = 10  // the scripted server has this many times the records of the real one
	kintoRounds       = 3   // how many times both sides of a comparison are run, in turn
	kintoNewest       = 1000
	kintoBytesInIndex = 80
	kintoFeed         = "records"
	kintoNewestFeed   = "newest"
	kintoUser         = "bench" // also the password
)

// kintoWritten is how many records the scripted server has for each record that is written to a
// real server.
const kintoWritten = 400

// kinto bridges collections into feeds, and writes a feed into collections.
func (b *bench) kinto() error {
	for _, step := range []func() error{b.kintoScripted, b.kintoIdle} {
		if err := step(); err != nil {
			return err
		}
	}
	for _, backend := range kintotest.Backends {
		if err := b.withKinto(backend, func(server *kintotest.Server) error {
			if backend == kintotest.PostgreSQL {
				if err := b.kintoBesideCurl(server); err != nil {
					return err
				}
			}
			return b.kintoSink(server.URL(), backend)
		}); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) withKinto(backend kintotest.Backend, use func(*kintotest.Server) error) error {
	server, err := kintotest.Launch(backend)
	if err != nil {
		return err
	}
	defer server.Kill()
	return use(server)
}

func kintoRecord(i int) string {
	const frame = len(`{"n":00000000,"text":""}`)
	return fmt.Sprintf(`{"n":%d,"text":"%s"}`, 10_000_000+i, strings.Repeat("x", kintoRecordSize-frame))
}

// kintoScripted bridges a collection of the scripted server, which is faster than Kinto: oldest
// first, and then newest first.
func (b *bench) kintoScripted() error {
	server := kintotest.LaunchFake()
	defer server.Close()
	source, err := b.newKinto(server.URL(), "source")
	if err != nil {
		return err
	}
	server.Fill(source, b.kintoRecords, kintoRecord)
	p, took, err := b.bridgeKinto(source, kintoFeed)
	if err != nil {
		return err
	}
	count := float64(b.kintoRecords)
	name := fmt.Sprintf("bridge %d records of %d B, scripted server", b.kintoRecords, kintoRecordSize)
	b.report.add(name, "records/s", count/took.Seconds(), 0, "", atLeast(20_000))
	b.reportMemory("bridge of records", p)
	index := size(b.kintoIndex(kintoFeed))
	limit := count * kintoBytesInIndex / 1e6
	b.report.add(fmt.Sprintf("index of %d records", b.kintoRecords), "MB", float64(index)/1e6, limit, "limit", atMost(limit))
	return b.kintoNewestFirst(source)
}

func (b *bench) kintoStore() string { return filepath.Join(b.dir, "kinto-feeds") }

func (b *bench) kintoIndex(feed string) string { return filepath.Join(b.dir, "kinto-index-"+feed) }

func (b *bench) kintoBridge(source, feed string, flags ...string) []string {
	return append([]string{
		"bridge", "kinto", source, feed, "--store", "file:" + b.kintoStore(), "--index", b.kintoIndex(feed), "--log-level", "warn",
	}, flags...)
}

func (b *bench) bridgeKinto(source, feed string, flags ...string) (*process, time.Duration, error) {
	return b.run(nil, b.feedctl, b.kintoBridge(source, feed, flags...)...)
}

// kintoBesideCurl bridges a collection of the real server. The alternative is curl, which reads the
// same pages and throws them away.
func (b *bench) kintoBesideCurl(server *kintotest.Server) error {
	source, err := b.newKinto(server.URL(), "source")
	if err != nil {
		return err
	}
	count := max(b.kintoRecords/kintoReal, 1)
	if err := b.fillKinto(server.Database(), count); err != nil {
		return err
	}
	pages, err := b.kintoPages(source)
	if err != nil {
		return err
	}
	var ours, curl time.Duration
	for round := range kintoRounds {
		_, read, err := b.run(nil, "curl", append([]string{"-sf"}, pages...)...)
		if err != nil {
			return err
		}
		_, took, err := b.bridgeKinto(source, fmt.Sprint("real-", round))
		if err != nil {
			return err
		}
		if round == 0 {
			ours, curl = took, read
		}
		ours, curl = min(ours, took), min(curl, read)
	}
	b.report.add(fmt.Sprintf("bridge %d records of %d B, PostgreSQL", count, kintoRecordSize), "records/s",
		float64(count)/ours.Seconds(), float64(count)/curl.Seconds(), "curl of the same pages to /dev/null", atLeastRatio(0.9))
	return nil
}

// fillKinto inserts records straight into the database of a server: sending them to the server
// would take a hundred times as long.
func (b *bench) fillKinto(database string, n int) (err error) {
	conn, err := pgx.Connect(b.ctx, database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(b.ctx)) }()
	_, err = conn.Exec(b.ctx, `INSERT INTO objects (id, parent_id, resource_name, last_modified, data, deleted)
		SELECT 'r' || i, '/buckets/bench/collections/source', 'record', from_epoch($1::bigint + i), jsonb_build_object('n', 10000000 + i, 'text', repeat('x', $2)), FALSE
		FROM generate_series(0, $3 - 1) AS i`, time.Now().UnixMilli()-int64(n), kintoRecordSize-len(`{"n":00000000,"text":""}`), n)
	return err
}

// kintoPages returns arguments for curl: the URLs of the pages of a collection, as the bridge
// requests them.
func (b *bench) kintoPages(source string) (args []string, err error) {
	for next := source + "/records?_sort=last_modified%2Cid&min_last_modified=0&_limit=10000"; next != ""; {
		r, err := http.NewRequestWithContext(b.ctx, http.MethodGet, next, nil)
		if err != nil {
			return nil, err
		}
		header, err := kintoAnswer(r)
		if err != nil {
			return nil, err
		}
		args = append(args, "-o", os.DevNull, next)
		next = header.Get("Next-Page")
	}
	return args, nil
}

// newKinto makes an empty collection that everyone may write to, and returns its URL.
func (b *bench) newKinto(server, name string) (string, error) {
	bucket := server + "/buckets/bench"
	collection := bucket + "/collections/" + name
	for _, q := range []struct{ url, body string }{{bucket, `{"permissions":{"write":["system.Everyone"]}}`}, {collection, `{}`}} {
		if err := b.kintoRequest(http.MethodPut, q.url, q.body); err != nil {
			return "", err
		}
	}
	return collection, nil
}

func (b *bench) kintoRequest(method, url, body string) error {
	r, err := http.NewRequestWithContext(b.ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.SetBasicAuth(kintoUser, kintoUser)
	r.Header.Set("Content-Type", "application/json")
	_, err = kintoAnswer(r)
	return err
}

// kintoAnswer makes a request, and reads the response to its end.
func kintoAnswer(r *http.Request) (http.Header, error) {
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10)) // the status is the error
		return nil, fmt.Errorf("%s %s: %s: %s", r.Method, r.URL.Path, response.Status, text)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return response.Header, err
}
