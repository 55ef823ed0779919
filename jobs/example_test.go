package jobs_test

import (
	"context"
	"fmt"
	"log"

	"github.com/feedctl/feedctl/jobs"
)

// greeter is a kind of job that writes a greeting.
type greeter struct{}

func (greeter) Check(*jobs.Document) []jobs.Problem { return nil }

func (greeter) Identify(d *jobs.Document) jobs.Identity { return jobs.Identity{Work: d.Source} }

func (greeter) Run(_ context.Context, s *jobs.Session) error {
	fmt.Println("hello,", s.Document.Source)
	return nil
}

// A scheduler in memory runs one job on one node.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	scheduler, err := jobs.Open(ctx, "sqlite::memory:", jobs.Kinds{"greet": greeter{}}, jobs.Defaults())
	if err != nil {
		log.Fatal(err)
	}
	defer scheduler.Close()
	documents := []jobs.Document{{Namespace: "shop", Name: "hello", Kind: "greet", Source: "world"}}
	changes, err := scheduler.Apply(ctx, documents, jobs.ApplyOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(changes[0].Job, changes[0].Action)

	go func() {
		defer stop()
		for state := jobs.Pending; state != jobs.Completed; {
			job, err := scheduler.Get(ctx, "shop/hello")
			if err != nil {
				log.Fatal(err)
			}
			state = job.State
		}
	}()
	if err := scheduler.Work(ctx, jobs.WorkerConfig{Name: "node-1"}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// shop/hello created
	// hello, world
}
