package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/internal/s3fault"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
	"github.com/feedctl/feedctl/storage/postgres"
)

const (
	// s3Delay is the delay of each request to the S3 server.
	s3Delay = 50 * time.Millisecond
	// waitingPublishers is how many entities may be on their way to a store: enough that
	// a commit of a few round trips does not slow down their rate.
	waitingPublishers = 512
)

// latency measures the time from a commit to the row in a SQLite database, through a server and
// a consumer in separate processes. On files and PostgreSQL, this process writes to the store,
// which notifies the server; an S3 server notifies no one, so there the entities are posted to
// feedctl.
func (b *bench) latency() error {
	return errors.Join(b.fileLatency(), b.postgresLatency(), b.s3Latency())
}

func (b *bench) fileLatency() error {
	dir := filepath.Join(b.dir, "latency-file")
	store, err := file.New(dir)
	if err != nil {
		return err
	}
	return errors.Join(b.storeLatency("file", store, "file:"+dir), store.Close())
}

func (b *bench) postgresLatency() (err error) {
	server, database, err := startPostgres()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	u, err := url.Parse(database)
	if err != nil {
		return err
	}
	store, err := postgres.Connect(b.ctx, u, slog.Default())
	if err != nil {
		return err
	}
	return errors.Join(b.storeLatency("PostgreSQL", store, database), store.Close())
}

// storeLatency publishes to a store that a server reads.
func (b *bench) storeLatency(name string, store storage.Store, at string) (err error) {
	f, err := producer.Open(b.ctx, store, "bench", producer.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	took, err := b.followLatency(name, at, func(_ string, n int) error {
		_, err := f.Publish(b.ctx, newEntity(n))
		return err
	})
	if err != nil {
		return err
	}
	const limits = "limit"
	b.report.add("commit to row at consumer, "+name+", median", "ms", milliseconds(percentile(took, .5)), 8, limits, atMost(8))
	b.report.add("commit to row at consumer, "+name+", 99th percentile", "ms", milliseconds(percentile(took, .99)), 30, limits, atMost(30))
	return nil
}

// s3Latency posts to the server, whose requests to the store are delayed.
func (b *bench) s3Latency() (err error) {
	endpoint, stop, err := b.startS3()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	u, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	proxy := httptest.NewServer(s3fault.Proxy(u, func(s3fault.Request) s3fault.Fault { return s3fault.Delay(s3Delay) }))
	defer proxy.Close()
	at := fmt.Sprintf("s3://%s/latency?region=us-east-1&path_style=true&endpoint=%s", s3Bucket, url.QueryEscape(proxy.URL))
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = waitingPublishers
	client := &http.Client{Transport: transport}
	defer transport.CloseIdleConnections()
	took, err := b.followLatency("S3", at, func(server string, n int) error { return postNumber(b.ctx, client, server, n) }, "--writable")
	if err != nil {
		return err
	}
	name := fmt.Sprintf("commit to row at consumer, S3 +%v, ", s3Delay)
	const one = "one request"
	b.report.add(name+"median", "ms", milliseconds(percentile(took, .5)), milliseconds(s3Delay), one, atMostRatio(2.5))
	b.report.add(name+"99th percentile", "ms", milliseconds(percentile(took, .99)), milliseconds(s3Delay), one, noTarget())
	return nil
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }

// postNumber publishes an entity to a server.
func postNumber(ctx context.Context, client *http.Client, server string, n int) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server+layout.FeedPath("bench")+"?key=/id", bytes.NewReader(newEntity(n).Body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || response.StatusCode/100 != 2 {
		return fmt.Errorf("publish to the server: %s: %.300s (%w)", response.Status, text, err)
	}
	return nil
}

// followLatency starts a consumer and a server for a store, and returns how long it took from each
// commit to its row.
func (b *bench) followLatency(name, at string, publish func(server string, n int) error, flags ...string) (took []time.Duration, err error) {
	s, err := b.serveAt(at, flags...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.interrupt()) }()
	rows := filepath.Join(b.dir, name+".db")
	consumer, err := b.start(nil, b.feedctl, "consume", s.url+layout.FeedPath("bench"), "--follow", "--into", "sqlite:"+rows+"?table=arrived", "--log-level", "error")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, consumer.interrupt()) }()
	a := &sqliteArrivals{file: rows}
	defer func() { err = errors.Join(err, a.close()) }()
	l := latencyLoad{bench: b, clients: waitingPublishers, publish: func(n int) error { return publish(s.url, n) }, arrived: a.read}
	return l.measure()
}

// sqliteArrivals reads the keys of new rows.
type sqliteArrivals struct {
	file string
	conn *sqlite.Conn
	row  int64 // the last row that was read
}

func (a *sqliteArrivals) read(_ int, seen func(n int)) (err error) {
	if a.conn == nil {
		if a.conn, err = sqlite.OpenConn(a.file, sqlite.OpenReadOnly); err != nil {
			return err
		}
	}
	return sqlitex.Execute(a.conn, "SELECT rowid, key FROM arrived WHERE rowid > ?", &sqlitex.ExecOptions{
		Args: []any{a.row},
		ResultFunc: func(row *sqlite.Stmt) error {
			a.row = row.ColumnInt64(0)
			n, err := strconv.Atoi(row.ColumnText(1))
			if err != nil {
				return err
			}
			seen(n)
			return nil
		},
	})
}

func (a *sqliteArrivals) close() error {
	if a.conn == nil {
		return nil
	}
	return a.conn.Close()
}
