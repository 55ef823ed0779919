package kinds

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/internal/suggest"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/jobs"
)

// instead maps each flag that is not an option of jobs to advice about what to do in a job instead.
var instead = map[string]string{
	"all":                      "write a job for each feed",
	"adopt":                    "this is for one run: run the command once",
	"against":                  "set target to the source to compare with",
	"against-credentials-file": "set credentials.target to file:PATH",
	"config":                   "put its settings into the job",
	"credentials-file":         "set credentials.source to file:PATH",
	"db":                       "set source to the URL of the database",
	"follow":                   "write \"follow: true\" next to options",
	"into":                     "set target to the sink",
	"into-credentials-file":    "set credentials.target to file:PATH",
	"json":                     "it is for the command line",
	"log-format":               "it is for the command line",
	"log-level":                "it is for the command line",
	"metrics":                  "the node serves the metrics of all its jobs",
	"moved":                    "this is for one run: run the command once",
	"once":                     "write \"follow: true\" next to options, or leave it out",
	"store":                    "write STORE#FEED",
	"verbose":                  "it is for the command line",
}

// parseOptions sets the flags that the options of a document name.
func parseOptions(flags *pflag.FlagSet, d *jobs.Document) (problems []jobs.Problem) {
	for _, name := range slices.Sorted(maps.Keys(d.Options)) {
		message := setOption(flags, name, d.Options[name])
		if err := checkOption(name, d.Options[name]); err != nil {
			message = err.Error() // the message of setOption may contain the secret
		}
		if message != "" {
			problems = append(problems, jobs.Problem{Field: "options." + name, Message: message})
		}
	}
	return problems
}

// setOption sets a flag. It returns a description of the problem, or "".
func setOption(flags *pflag.FlagSet, name string, values jobs.Values) string {
	if other, ok := instead[name]; ok {
		return "not an option of a job: " + other
	}
	f := flags.Lookup(name)
	if f == nil {
		return "unknown option" + suggest.DidYouMean(strings.TrimLeft(name, "-"), optionsOf(flags), "")
	}
	if list, ok := f.Value.(pflag.SliceValue); ok {
		if err := list.Replace(values); err != nil {
			return plainError(f, err)
		}
		f.Changed = true
		return ""
	}
	if len(values) != 1 {
		return fmt.Sprintf("want one value, not %d", len(values))
	}
	if err := f.Value.Set(values[0]); err != nil {
		return plainError(f, err)
	}
	f.Changed = true
	return ""
}

// optionsOf returns the names of the flags that are options, in order.
func optionsOf(flags *pflag.FlagSet) (names []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if _, ok := instead[f.Name]; !ok {
			names = append(names, f.Name)
		}
	})
	return names
}

// plainError returns an error for a bad value whose wording does not depend on the parser.
func plainError(f *pflag.Flag, err error) string {
	switch f.Value.Type() {
	case "bool":
		return "want true or false"
	case "int", "int64":
		return "want a whole number"
	}
	return err.Error()
}

// flagName matches a flag in a message.
var flagName = regexp.MustCompile(`--([a-z][a-z-]*)`)

// fieldsOf returns the fields of a document that an error from a task is about. There is at least one.
func (k *kind) fieldsOf(err error) (fields []string) {
	if argument, ok := errors.AsType[*task.ArgumentError](err); ok && argument != nil {
		return []string{"source", "target"}
	}
	for _, m := range flagName.FindAllStringSubmatch(err.Error(), -1) {
		switch m[1] {
		case "against", "into":
			fields = append(fields, "target")
		case "db":
			fields = append(fields, "source")
		case "store":
			fields = append(fields, k.stored)
		default:
			fields = append(fields, "options."+m[1])
		}
	}
	return append(fields, "options")
}

// effective returns the options that affect the result of a task, in a canonical form.
func effective(flags *pflag.FlagSet, neutral []string) map[string][]string {
	set := map[string][]string{}
	flags.VisitAll(func(f *pflag.Flag) {
		if _, ok := instead[f.Name]; ok || slices.Contains(neutral, f.Name) {
			return
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			if values := list.GetSlice(); len(values) > 0 {
				set[f.Name] = slices.Sorted(slices.Values(values))
			}
			return
		}
		if value := f.Value.String(); value != f.DefValue {
			set[f.Name] = []string{plainJSON(value)}
		}
	})
	return set
}

// plainJSON returns a JSON object in a canonical form, and other strings as they are.
func plainJSON(text string) string {
	var value map[string]any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if d.Decode(&value) != nil {
		return text
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(value) != nil {
		return text
	}
	return b.String()
}
