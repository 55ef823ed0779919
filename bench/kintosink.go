package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/kinto"
)

// kintoBatch is how many requests a server accepts in a batch.
const kintoBatch = 25

// kintoSink consumes the feed of a bridge into a collection, with a process that is measured from its
// start to its end. The alternative is a loop that writes the same records in batches as large as the
// server allows, without conditions or a position.
func (b *bench) kintoSink(server string, backend kintotest.Backend) error {
	count := max(b.kintoRecords/kintoWritten, 1)
	feed := "written-" + string(backend)
	if err := b.bridgeFilled(feed, count); err != nil {
		return err
	}
	user := filepath.Join(b.dir, "kinto-user") // for the loop, too
	if err := os.WriteFile(user, []byte("basic "+kintoUser+":"+kintoUser), 0o600); err != nil {
		return err
	}
	var last *process
	var ours, other time.Duration
	for round := range kintoRounds {
		target, err := b.newKinto(server, fmt.Sprintf("other-%d", round))
		if err != nil {
			return err
		}
		start := time.Now()
		if err := b.kintoBatches(target, count); err != nil {
			return err
		}
		loop := time.Since(start)
		if target, err = b.newKinto(server, fmt.Sprintf("ours-%d", round)); err != nil {
			return err
		}
		p, took, err := b.run(nil, b.feedctl, "consume", "file:"+b.kintoStore()+"#"+feed, "--into", "kinto:"+target, "--into-credentials-file", user, "--log-level", "warn")
		if err != nil {
			return err
		}
		if round == 0 {
			ours, other = took, loop
		}
		ours, other, last = min(ours, took), min(other, loop), p
	}
	b.report.add(fmt.Sprintf("consume %d records of %d B, %s", count, kintoRecordSize, backend), "records/s",
		float64(count)/ours.Seconds(), float64(count)/other.Seconds(), fmt.Sprintf("POST /batch of %d in a loop", kintoBatch), atLeastRatio(0.8))
	b.reportMemory("consume into Kinto, "+string(backend), last)
	return nil
}

// bridgeFilled makes the feed of a collection of the scripted server.
func (b *bench) bridgeFilled(feed string, n int) error {
	server := kintotest.LaunchFake()
	defer server.Close()
	source, err := b.newKinto(server.URL(), "source")
	if err != nil {
		return err
	}
	server.Fill(source, n, kintoRecord)
	_, _, err = b.bridgeKinto(source, feed)
	return err
}

func (b *bench) kintoBatches(target string, n int) error {
	collection, err := kinto.Open(kinto.Config{URL: target})
	if err != nil {
		return err
	}
	for first := 0; first < n; first += kintoBatch {
		var body bytes.Buffer
		for i := first; i < min(first+kintoBatch, n); i++ {
			fmt.Fprintf(&body, `,{"method":"PUT","path":%q,"body":{"data":%s}}`, collection.Path(fmt.Sprint("r", i)), kintoRecord(i))
		}
		if err := b.kintoRequest(http.MethodPost, collection.Server().URL()+"/batch", `{"requests":[`+body.String()[1:]+`]}`); err != nil {
			return err
		}
	}
	return nil
}
