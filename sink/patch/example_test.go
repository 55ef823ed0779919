package patch_test

import (
	"fmt"
	"log"

	"github.com/feedctl/feedctl/sink/patch"
)

func ExampleApply() {
	document := []byte(`{"country":"CH","offset":1}`)
	patched, err := patch.Apply(document, patch.Merge, []byte(`{"offset":2}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", patched)
	// Output: {"country":"CH","offset":2}
}
