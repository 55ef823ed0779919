package kinds_test

import (
	"fmt"

	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/jobs/kinds"
)

func ExampleCommand() {
	fmt.Println(kinds.Command(&jobs.Document{
		Kind: "consume", Source: "https://feeds.example.org/feeds/orders", Target: "couchdb:https://couch.example.org/orders",
		Follow: true, Credentials: map[string]string{"source": "file:/etc/feedctl/feeds", "target": "env:COUCH"},
		Options: map[string]jobs.Values{"from": {"snapshot"}},
	}))
	// Output:
	// FEEDCTL_INTO_CREDENTIALS="$COUCH" feedctl consume https://feeds.example.org/feeds/orders --into couchdb:https://couch.example.org/orders --follow --credentials-file /etc/feedctl/feeds --from=snapshot
}
