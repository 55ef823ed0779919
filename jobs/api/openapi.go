package api

import (
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// openAPI answers with a description of all resources (OpenAPI 3.1).
func (a *API) openAPI(w http.ResponseWriter, _ *http.Request) error {
	s := schemas{}
	paths := map[string]any{}
	for _, r := range a.table() {
		resource := map[string]any{}
		for method, o := range r.operations {
			resource[strings.ToLower(method)] = s.operation(r.pattern, o)
		}
		paths[r.pattern] = resource
	}
	return answer(w, http.StatusOK, map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title": "feedctl jobs", "version": "1",
			"description": "Errors are application/problem+json. The package documentation of jobs/api has their types, and what is not " +
				"described here: the header fields ETag, If-Match, If-None-Match and Location, the lines that follow=true sends, export in YAML, and /runs/.",
		},
		"paths":    paths,
		"security": []any{map[string]any{"bearer": []any{}}, map[string]any{"basic": []any{}}},
		"components": map[string]any{
			"schemas": s,
			"securitySchemes": map[string]any{
				"bearer": map[string]any{"type": "http", "scheme": "bearer"},
				"basic":  map[string]any{"type": "http", "scheme": "basic"},
			},
		},
	})
}

var inPath = regexp.MustCompile(`\{(\w+)\}`)

func (s schemas) operation(pattern string, o operation) map[string]any {
	parameters := []any{}
	for _, match := range inPath.FindAllStringSubmatch(pattern, -1) {
		parameters = append(parameters, map[string]any{"name": match[1], "in": "path", "required": true, "schema": map[string]any{"type": "string"}})
	}
	for _, name := range o.query {
		parameters = append(parameters, map[string]any{"name": name, "in": "query", "schema": parameterSchema(name)})
	}
	responses := map[string]any{
		"default": map[string]any{"description": "A problem", "content": map[string]any{"application/problem+json": map[string]any{}}},
	}
	statuses := o.statuses
	if statuses == nil {
		statuses = []int{http.StatusOK}
	}
	for _, status := range statuses {
		answers := map[string]any{"description": http.StatusText(status)}
		if media, ok := o.gives.(string); ok {
			answers["content"] = map[string]any{media: map[string]any{}}
		} else if o.gives != nil {
			answers["content"] = s.content(o.gives)
		}
		responses[strconv.Itoa(status)] = answers
	}
	described := map[string]any{"summary": o.summary, "parameters": parameters, "responses": responses}
	if o.takes != nil {
		described["requestBody"] = map[string]any{"required": true, "content": s.content(o.takes)}
	}
	return described
}

func parameterSchema(name string) map[string]any {
	switch name {
	case "limit", "skip", "after":
		return map[string]any{"type": "integer", "minimum": 0}
	case "follow":
		return map[string]any{"type": "boolean"}
	}
	return map[string]any{"type": "string"}
}

func (s schemas) content(v any) map[string]any {
	return map[string]any{"application/json": map[string]any{"schema": s.of(reflect.TypeOf(v))}}
}

// schemas holds the JSON schemas of the structs that the API sends and receives, by name.
type schemas map[string]any

// of returns the schema of a type.
func (s schemas) of(t reflect.Type) map[string]any {
	switch t {
	case reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case reflect.TypeFor[time.Duration]():
		return map[string]any{"type": "integer", "description": "nanoseconds"}
	}
	if t.Implements(reflect.TypeFor[json.Marshaler]()) {
		return map[string]any{} // anything
	}
	switch t.Kind() { //nolint:exhaustive // the other kinds do not occur
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Slice:
		return map[string]any{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Struct:
		return s.ofStruct(t)
	}
	return map[string]any{} // anything
}

func (s schemas) ofStruct(t reflect.Type) map[string]any {
	name := t.Name()
	if _, ok := s[name]; !ok {
		properties, required := map[string]any{}, []string{}
		s[name] = nil // the struct may refer to itself
		s.members(t, properties, &required)
		s[name] = map[string]any{"type": "object", "properties": properties, "required": required}
	}
	return map[string]any{"$ref": "#/components/schemas/" + name}
}

// members adds the members that a struct has in JSON.
func (s schemas) members(t reflect.Type, properties map[string]any, required *[]string) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			s.members(f.Type, properties, required)
		case name != "" && name != "-":
			if _, ok := properties[name]; !ok && options == "" {
				*required = append(*required, name)
			}
			properties[name] = s.of(f.Type)
		}
	}
}
