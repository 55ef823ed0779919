package watch_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/feedctl/feedctl/jobs/watch"
)

// versions is a source with a version for each name. It compares the versions once.
type versions map[string]string

func (v versions) Watch(ctx context.Context, w *watch.Watched) error {
	states, err := w.Jobs.States(ctx)
	if err != nil {
		return err
	}
	changed := map[string]string{}
	for name, before := range states {
		if v[name] != before {
			changed[name] = v[name]
		}
	}
	if err := w.Jobs.Changed(ctx, changed); err != nil {
		return err
	}
	w.Jobs.Checked("")
	return errors.New("a real source continues until ctx ends")
}

// saved holds the saved states of jobs. It prints which jobs are woken.
type saved map[string]string

func (s saved) States(context.Context) (map[string]string, error) { return s, nil }

func (s saved) Changed(_ context.Context, states map[string]string) error {
	fmt.Println("changed:", states)
	return nil
}

func (s saved) Checked(string) { fmt.Println("checked") }

func ExampleSource() {
	var source watch.Source = versions{"orders": "2", "customers": "7", "other": "1"}
	w := &watch.Watched{Server: "https://feeds.example.org/", Jobs: saved{"orders": "1", "customers": "7"}}
	if err := source.Watch(context.Background(), w); err == nil {
		log.Fatal("no error")
	}
	// Output:
	// changed: map[orders:2]
	// checked
}
