package input_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/feedctl/feedctl/input"
)

func ExampleNDJSON() {
	lines := `{"id":"Europe/Bern","op":"put"}` + "\n" + `{"id":"Antarctica/Troll","op":"delete"}` + "\n"
	for e, err := range input.NDJSON(strings.NewReader(lines), input.Options{Key: "/id", OperationField: "/op"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Operation, e.Key())
	}
	// Output:
	// PUT Europe/Bern
	// DELETE Antarctica/Troll
}
