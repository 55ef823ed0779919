package bridge_test

import (
	"fmt"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/feed"
)

// The entity of a revision names both the document and the revision.
func ExampleVersion_Entity() {
	e := bridge.Version{ID: "Europe/Berlin", Rev: "3-a1"}.Entity(feed.Put, "application/json")
	fmt.Println(e.ContentLocation, e.ContentID, e.Header)
	// Output: Europe%2FBerlin <Europe%2FBerlin@3-a1> [{ETag "3-a1"}]
}
