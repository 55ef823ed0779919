package snapshot

import (
	"bytes"
	_ "embed"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

//go:embed index.schema.json
var schemaText string

// Schema returns the JSON schema of an index from the specification.
func Schema() []byte { return []byte(schemaText) }

const schemaURL = "https://www.datareplication.io/spec/snapshot/index.schema.json"

// compiled returns the compiled schema.
var compiled = sync.OnceValues(func() (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		return nil, fmt.Errorf("read the embedded schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat() // reject an invalid "date-time"; by default, formats are not checked
	c.RegisterFormat(&jsonschema.Format{Name: "date-time", Validate: func(v any) error {
		text, ok := v.(string)
		if !ok {
			return nil
		}
		_, err := parseDateTime(text)
		return err
	}})
	if err := c.AddResource(schemaURL, document); err != nil {
		return nil, fmt.Errorf("compile the embedded schema: %w", err)
	}
	return c.Compile(schemaURL)
})

// validate checks data against the schema. The error lists every violation with its
// location.
func validate(data []byte) error {
	schema, err := compiled()
	if err != nil {
		return err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%w: not a JSON document: %w", ErrInvalid, err)
	}
	if err := schema.Validate(document); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}
