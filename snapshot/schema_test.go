package snapshot_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// openSchema compiles the JSON schema of the specification.
func openSchema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile("index.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat() // by default, formats are not checked
	c.RegisterFormat(&jsonschema.Format{Name: "date-time", Validate: func(v any) error {
		if text, ok := v.(string); ok {
			return new(time.Time).UnmarshalText([]byte(strings.ToUpper(text)))
		}
		return nil
	}})
	const url = "https://www.datareplication.io/spec/snapshot/index.schema.json"
	if err := c.AddResource(url, document); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile(url)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// isValid reports whether text is valid according to the schema.
func isValid(schema *jsonschema.Schema, text []byte) bool {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	return err == nil && schema.Validate(document) == nil
}
