// Command bench measures feedctl against named alternatives on this machine,
// prints a table and writes bench.json. Run it with "make bench".
//
// Both sides of a comparison are measured in the same run, one after the other,
// with the same data and the same number of workers, in several rounds. Where
// memory is measured, feedctl runs in separate processes (bin/feedctl).
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

// A bench is shared by all sections.
type bench struct {
	ctx      context.Context
	feedctl  string        // path of the binary
	dir      string        // for stores and outputs of a round; removed at its end
	time     time.Duration // of one measurement that is not bounded by its data
	entities int           // in the feed that is consumed
	huge     int64         // bytes of the one large entity
	s3Bytes  int64         // of entities that are published to S3
	rounds   int
	report   *report

	versitygw string // path of the S3 server

	part int // divides the sizes of the measurements of jobs and of the scale

	couchURL  string // of a CouchDB server; "": PouchDB's engine
	couchDocs int    // that are bridged

	kintoRecords int // that are bridged from a scripted server
}

type section struct {
	name string
	run  func(*bench) error // a round
	once bool               // the section takes a long time and varies little: one round is enough
}

func sections() []section {
	return append([]section{
		{name: "binary", run: (*bench).binary},
		{name: "codec", run: (*bench).codec},
		{name: "cpu", run: (*bench).cpu},
		{name: "publish", run: (*bench).publish},
		{name: "serve", run: (*bench).serve},
		{name: "servecores", run: (*bench).serveCores},
		{name: "consume", run: (*bench).consume},
		{name: "catchup", run: (*bench).catchUp},
		{name: "newestfirst", run: (*bench).newestFirst},
		{name: "memory", run: (*bench).memory},
		{name: "followers", run: (*bench).followers},
		{name: "s3", run: (*bench).s3},
		{name: "s3command", run: (*bench).s3Command},
		{name: "postgres", run: (*bench).postgres},
		{name: "fairness", run: (*bench).fairness, once: true},
		{name: "outbox", run: (*bench).outbox},
		{name: "latency", run: (*bench).latency},
		{name: "scale", run: (*bench).scale, once: true},
		{name: "sinkpostgres", run: (*bench).sinkPostgres},
		{name: "couchdb", run: (*bench).couchdb},
		{name: "sinkcouchdb", run: (*bench).sinkCouchDB},
		{name: "kinto", run: (*bench).kinto},
	}, jobsSections()...)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	binary := flag.String("feedctl", "bin/feedctl", "the `binary` to measure")
	out := flag.String("o", "bench.json", "write the results to this `file`")
	only := flag.String("only", "", "run these sections only, a `list` joined by commas: "+names(sections())+"; jobs stands for all of jobs-…")
	temp := flag.String("dir", ".cache", "`directory` for stores; results depend on its disk and on how full it is")
	rounds := flag.Int("rounds", 3, "measure each section this `number` of times, but those of jobs once")
	duration := flag.Duration("time", 3*time.Second, "length of one measurement")
	entities := flag.Int("entities", 300_000, "entities of 1 KB in the feed that is consumed")
	huge := flag.Int64("huge", 2<<30, "`bytes` of the one large entity")
	gateway := flag.String("versitygw", ".cache/bin/versitygw-v1.8.0", "the S3 server, a `binary`")
	s3Bytes := flag.Int64("s3bytes", 1<<30, "`bytes` of entities that are published to S3")
	couchURL := flag.String("couchdb", "", "`URL` of a CouchDB to bridge from, which gets databases named feedctl-bench; default: PouchDB's engine")
	couchDocs := flag.Int("couchdocs", 100_000, "documents of 500 B that are bridged")
	kintoRecords := flag.Int("kintorecords", 1_000_000, "records of 400 B that are bridged from a scripted server; a tenth of them from Kinto")
	part := flag.Int("part", 1, "divide the numbers of jobs and of publishers to a feed, and the sizes of scale, by this `NUMBER`, to try out the measurements")
	publishers := flag.Int("publishers", 0, "only publish from a `number` of goroutines, and print entities a second")
	flag.Parse()

	if err := os.MkdirAll(*temp, 0o777); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(*temp, "bench-")
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	defer func() {
		if e := os.RemoveAll(dir); err == nil {
			err = e
		}
	}()
	path, err := filepath.Abs(*binary)
	if err != nil {
		return err
	}
	b := &bench{
		ctx: ctx, feedctl: path, dir: dir, time: *duration, entities: *entities, huge: *huge,
		s3Bytes: *s3Bytes, versitygw: *gateway, couchURL: *couchURL, couchDocs: *couchDocs,
		kintoRecords: max(*kintoRecords, 1), part: max(*part, 1), rounds: max(*rounds, 1),
	}
	if *publishers > 0 {
		return b.publishOnly(*publishers)
	}
	chosen, err := choose(sections(), *only)
	if err != nil {
		return err
	}
	b.report = newReport(os.Stdout)
	var failed []error
	for _, s := range chosen {
		start := time.Now()
		if err := b.measure(s); err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", s.name, explain(err))
			failed = append(failed, errors.New(s.name))
		}
		b.report.print()
		fmt.Printf("%s took %s\n", s.name, time.Since(start).Round(time.Second))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	b.report.end()
	if err := b.report.write(*out); err != nil || len(failed) == 0 {
		return err
	}
	return fmt.Errorf("%d of %d sections failed: %w", len(failed), len(chosen), errors.Join(failed...))
}

// measure runs the rounds of a section, each in an empty directory.
func (b *bench) measure(s section) error {
	rounds := b.rounds
	if s.once {
		rounds = 1
	}
	for n := range rounds {
		round := *b
		round.dir = filepath.Join(b.dir, fmt.Sprintf("%s-%d", s.name, n+1))
		if err := os.Mkdir(round.dir, 0o777); err != nil {
			return err
		}
		if err := errors.Join(s.run(&round), os.RemoveAll(round.dir)); err != nil {
			return err
		}
	}
	return nil
}

func names(all []section) string {
	var list []string
	for _, s := range all {
		list = append(list, s.name)
	}
	return strings.Join(list, ", ")
}

// choose returns the sections in a list, or all if the list is empty. A name also stands for all
// names that begin with it and a hyphen.
func choose(all []section, list string) (chosen []section, err error) {
	if list == "" {
		return all, nil
	}
	for name := range strings.SplitSeq(list, ",") {
		before := len(chosen)
		for _, s := range all {
			if s.name == name || strings.HasPrefix(s.name, name+"-") {
				chosen = append(chosen, s)
			}
		}
		if len(chosen) == before {
			return nil, fmt.Errorf("there is no section %q", name)
		}
	}
	return chosen, nil
}

// explain adds the output of a failed command to its error.
func explain(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	return err
}
