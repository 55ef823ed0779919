package kinds

import (
	"testing"

	"github.com/feedctl/feedctl/jobs"
)

// TestAnnounce: a job announces its own name to the server, or the name in the option announce. The
// option does not change Identity.Work.
func TestAnnounce(t *testing.T) {
	t.Parallel()
	d := jobs.Document{Namespace: "shop", Name: "stock", Kind: "consume", Source: "https://feeds.example/feeds/stock", Target: "sqlite:/srv/stock.db?table=stock"}
	work := consume.Identify(&d).Work
	for option, want := range map[string]string{"": "shop/stock", "web": "web", "none": "none"} {
		d := d
		if option != "" {
			d.Options = map[string]jobs.Values{"announce": {option}}
		}
		k := consume
		p, problems := k.parse(&d)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if got := p.runner.(*consumeRun).Announce; got != want {
			t.Errorf("with announce %q, the job announces %q, want %q", option, got, want)
		}
		if got := k.Identify(&d).Work; got != work {
			t.Errorf("with announce %q, the work is different", option)
		}
	}
}
