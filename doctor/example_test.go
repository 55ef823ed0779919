package doctor_test

import (
	"context"
	"fmt"
	"log"

	"github.com/feedctl/feedctl/doctor"
	"github.com/feedctl/feedctl/storage/memory"
)

func ExampleStore() {
	findings, err := doctor.Store(context.Background(), memory.New())
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range findings {
		if f.Level != doctor.OK {
			fmt.Printf("%s: %s: %s\n", f.Check, f.Found, f.Fix)
		}
	}
	fmt.Println("problems:", doctor.Problems(findings))
	// Output: problems: 0
}
