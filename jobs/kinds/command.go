package kinds

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/internal/shell"
	"github.com/feedctl/feedctl/jobs"
)

// Command returns the command line, for a POSIX shell, that does the same as a job. In it, credentials
// are references, as in the job. The result is empty if the kind is not known.
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
	return shellCommand(d, words, variables)
}

// shellCommand returns the command line of a job for a POSIX shell. It consists of assignments of
// variables and of words.
func shellCommand(d *jobs.Document, words, variables []string) string {
	second := "" // the second of two passwords, since PGPASSWORD holds only one
	if len(variables) == 2 && strings.HasPrefix(variables[0], "PGPASSWORD=") {
		second, _ = strings.CutPrefix(variables[1], "PGPASSWORD=")
	}
	for n, word := range words {
		words[n] = shell.Quote(word)
		if second != "" && word == d.Target {
			words[n], variables = quoteURL(word, second), variables[:1]
		}
	}
	return strings.Join(append(append(variables, "feedctl"), words...), " ")
}

// Command returns the command line that a [jobs.Description] shows.
func (*kind) Command(d *jobs.Document) string { return Command(d) }

// credentialOf adds the credential of the source or the target to a command line: as a flag if it is in
// a file, otherwise as a variable.
func credentialOf(d *jobs.Document, side, flag, variable string, words, variables []string) ([]string, []string) {
	where, name, _ := strings.Cut(d.Credentials[side], ":")
	assignment := ""
	switch {
	case where == "file" && variable != "PGPASSWORD":
		words = append(words, flag, name)
	case where == "file":
		assignment = variable + `="$(cat ` + shell.Quote(name) + `)"`
	case where == "env":
		assignment = variable + `="$` + name + `"`
	}
	if assignment != "" && !slices.Contains(variables, assignment) {
		variables = append(variables, assignment)
	}
	return words, variables
}

// quoteURL quotes the URL of a database for a shell. The shell inserts a password, each byte of it
// percent-encoded (RFC 3986, section 2.1).
func quoteURL(raw, password string) string {
	scheme, rest, _ := strings.Cut(raw, "://")
	user := ""
	if at := strings.Index(rest, "@"); at >= 0 && at < strings.IndexAny(rest+"/", "/?#") {
		user, rest = rest[:at], rest[at+1:]
	}
	encoded := `"$(printf %s ` + password + ` | od -An -v -tx1 | tr -d ' \n' | sed 's/../%&/g')"`
	return shell.Quote(scheme+"://"+user+":") + encoded + shell.Quote("@"+rest)
}

// sourceVariable returns the name of the variable that holds the credential of a source.
func sourceVariable(d *jobs.Document) string {
	if strings.HasPrefix(d.Source, "postgres") {
		return "PGPASSWORD"
	}
	return "FEEDCTL_CREDENTIALS"
}
