package sinktest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink/jsonl"
	"github.com/feedctl/feedctl/sink/sinktest"
)

// This is a test in the package of a sink.
func ExampleRun() {
	TestSink := func(t *testing.T) {
		sinktest.Run(t, sinktest.Options{
			Log: true,
			Open: func(_ context.Context, dir string) (consumer.Sink, error) {
				return jsonl.Open(filepath.Join(dir, "out.jsonl"))
			},
			Read: func(dir string) (records []sinktest.Record, err error) {
				file, err := os.Open(filepath.Join(dir, "out.jsonl"))
				if err != nil {
					return nil, err
				}
				defer file.Close()
				lines := bufio.NewScanner(file)
				for lines.Scan() {
					var line struct{ Key, Operation, ContentID string } // and the other members
					err = errors.Join(err, json.Unmarshal(lines.Bytes(), &line))
					records = append(records, sinktest.Record{Key: line.Key, Operation: feed.Operation(line.Operation), ContentID: line.ContentID})
				}
				return records, errors.Join(err, lines.Err())
			},
		})
	}
	_ = TestSink // go test calls it
}
