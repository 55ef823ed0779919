package kinds

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/jobs"
)

// Command returns the command line that does the same as a job, for a shell. Credentials are
// references in it, too. It is empty if the kind is not known.
func Command(d *jobs.Document) string {
	k, ok := known[d.Kind]
	if !ok {
		return ""
	}
	words, variables := k.arguments(d)
	flags := pflag.NewFlagSet(d.Kind, pflag.ContinueOnError)
	k.new().Flags(flags)
	for _, name := range slices.Sorted(maps.Keys(d.Options)) {
		f := flags.Lookup(name)
		for _, value := range d.Options[name] {
			switch {
			case f != nil && f.NoOptDefVal != "" && value == f.NoOptDefVal:
				words = append(words, "--"+name)
			default:
				words = append(words, "--"+name+"="+value)
			}
		}
	}
	for n := range words {
		words[n] = quote(words[n])
	}
	return strings.Join(append(append(variables, "feedctl"), words...), " ")
}

// credentialOf adds the credential of a side: by a flag for a file, by a variable otherwise.
func credentialOf(d *jobs.Document, side, flag, variable string, words, variables []string) ([]string, []string) {
	where, name, _ := strings.Cut(d.Credentials[side], ":")
	assignment := ""
	switch {
	case where == "file" && variable != "PGPASSWORD":
		words = append(words, flag, name)
	case where == "file":
		assignment = variable + `="$(cat ` + quote(name) + `)"`
	case where == "env":
		assignment = variable + `="$` + name + `"`
	}
	if assignment != "" && !slices.Contains(variables, assignment) {
		variables = append(variables, assignment)
	}
	return words, variables
}

// sourceVariable returns the variable with the credential of a source.
func sourceVariable(d *jobs.Document) string {
	if strings.HasPrefix(d.Source, "postgres") {
		return "PGPASSWORD"
	}
	return "FEEDCTL_CREDENTIALS"
}

// plainWord matches what means itself to a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quote quotes a word for a shell (POSIX, "Single-Quotes").
func quote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
