package layout_test

import (
	"fmt"

	"github.com/feedctl/feedctl/layout"
)

func Example() {
	fmt.Println(layout.FeedPage("zones", 17))
	fmt.Println(layout.FeedPagePath("zones", 17))
	fmt.Println(layout.CheckName("a/b"))
	// Output:
	// feeds/zones/pages/000000000017
	// /feeds/zones/pages/17
	// invalid name "a/b": character '/' is not one of a-z A-Z 0-9 . _ -
}
