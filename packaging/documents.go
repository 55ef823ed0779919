package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
)

// documents runs feedctl to generate completions and the help of its commands, and converts the
// help to manual pages.
func documents(ctx context.Context, program, work string, b build) ([]file, error) {
	var files []file
	for shell, name := range map[string]string{"bash": "feedctl.bash", "zsh": "_feedctl", "fish": "feedctl.fish", "powershell": "feedctl.ps1"} {
		script, err := output(ctx, program, "completion", shell)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: "completions/" + name, mode: 0o644, body: []byte(script + "\n")})
	}
	dir := filepath.Join(work, "help")
	if _, err := output(ctx, program, "gen-docs", dir); err != nil {
		return nil, err
	}
	help, err := tree(dir)
	if err != nil {
		return nil, err
	}
	for _, page := range help {
		name := strings.TrimSuffix(page.name, ".md")
		files = append(files, file{name: "man/" + name + ".1", mode: 0o644, body: manual(name, string(page.body), b)})
	}
	return files, os.RemoveAll(dir)
}

var (
	link = regexp.MustCompile(`\[[^]]*\]\(([a-z-]+)\.md\)`)
	// title matches the beginning of the help of a command: its name, a sentence that describes
	// it, and its usage.
	title = regexp.MustCompile("(?s)^# [^\n]*\n\n([^\n]*)\\.\n\n(```\n.*?\n```)\n\n")
)

// manual converts the help of a command from Markdown to a manual page.
func manual(name, help string, b build) []byte {
	var page strings.Builder
	fmt.Fprintf(&page, "%s 1 %q %q %q\n", strings.ToUpper(name), b.time.Format("2006-01-02"), "feedctl "+b.number(), "feedctl")
	fmt.Fprintf(&page, "==\n\n# NAME\n\n")
	help = title.ReplaceAllStringFunc(help, func(head string) string {
		m := title.FindStringSubmatch(head)
		return fmt.Sprintf("%s \\- %s\n\n# SYNOPSIS\n\n%s\n\n# DESCRIPTION\n\n", name, lowerFirst(m[1]), m[2])
	})
	help = strings.NewReplacer("\n## Examples\n", "\n# EXAMPLES\n", "\n## Flags\n", "\n# OPTIONS\n", "\n## Global flags\n", "\n# GLOBAL OPTIONS\n", "\n## See also\n", "\n# SEE ALSO\n").Replace(help)
	page.WriteString(link.ReplaceAllString(help, "**$1**(1)"))
	return md2man.Render([]byte(page.String()))
}

// lowerFirst converts the first letter to lower case, unless the second letter is also a capital.
func lowerFirst(text string) string {
	if len(text) > 1 && strings.ToLower(text[1:2]) == text[1:2] {
		return strings.ToLower(text[:1]) + text[1:]
	}
	return text
}
