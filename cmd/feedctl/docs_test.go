package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/internal/app"
)

// TestDocumentedCommands parses every feedctl command line in the documents and in the
// examples of the help: its commands and flags must exist, and its arguments must have the
// right form and number.
func TestDocumentedCommands(t *testing.T) {
	found := map[string][]string{} // places of each command line
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(pages, "../../README.md", "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range shownCommands(string(text)) {
			found[line] = append(found[line], filepath.Base(path))
		}
	}
	walk(newRoot(app.New(app.Streams{})), func(c *cobra.Command) {
		for _, line := range shownCommands(strings.ReplaceAll("\n"+c.Example, "\n  ", "\n    ")) {
			found[line] = append(found[line], "help of "+c.CommandPath())
		}
	})
	if len(found) < 100 {
		t.Errorf("only %d command lines found", len(found))
	}
	for line, places := range found {
		if err := parseCommand(line); err != nil {
			t.Errorf("%s: %s: %v", strings.Join(places, ", "), line, err)
		}
	}
}

func TestDocumentedCommandsCanFail(t *testing.T) {
	for _, line := range []string{
		"feedctl consum URL", "feedctl consume", "feedctl consume URL --int jsonl:x", "feedctl serve --cache-size", "feedctl verify A B C",
	} {
		if parseCommand(line) == nil {
			t.Errorf("%s: no error", line)
		}
	}
	text := "    $ feedctl serve &\n    FEEDCTL_STORE=x feedctl publish a 'b c' | cat\n\ntext `feedctl tail --help` feedctl no\n```\nfeedctl version # why\n```\n"
	got := strings.Join(shownCommands(text), "; ")
	if want := "feedctl version; feedctl serve; feedctl publish a 'b c'; feedctl tail --help …"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
}

var (
	inBlock  = regexp.MustCompile(`(?m)^(?: {4,})?(?:\$ )?(?:[A-Z_]+=\S* )*(feedctl [^|&;#<>\n]+)`)
	inText   = regexp.MustCompile("`(feedctl [a-z][^`|]*)`")
	word     = regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`)
	fence    = regexp.MustCompile("(?ms)^```\n.*?^```$")
	indented = regexp.MustCompile(`(?m)^ {4}.*\n`)
)

// shownCommands returns the feedctl command lines in the code of a Markdown text. Those
// within a sentence end in "…", since they may be incomplete.
func shownCommands(text string) []string {
	text = joinLines(text)
	blocks := strings.Join(fence.FindAllString(text, -1), "\n")
	rest := fence.ReplaceAllString(text, "")
	blocks += "\n" + strings.Join(indented.FindAllString(rest+"\n", -1), "")
	var lines []string
	for _, m := range inBlock.FindAllStringSubmatch(unquotedOnly(blocks), -1) {
		lines = append(lines, strings.TrimSpace(restore(m[1])))
	}
	for _, m := range inText.FindAllStringSubmatch(rest, -1) {
		lines = append(lines, m[1]+" …")
	}
	return lines
}

func joinLines(text string) string { return strings.ReplaceAll(text, "\\\n", " ") }

// unquotedOnly hides shell separators that are quoted or part of a word; restore restores
// them.
func unquotedOnly(text string) string {
	return regexp.MustCompile(`'[^'\n]*'|"[^"\n]*"|\S#`).ReplaceAllStringFunc(text, func(s string) string { return hidden.Replace(s) })
}

var hidden = strings.NewReplacer("|", "\x01", "&", "\x02", ";", "\x03", "#", "\x04", ">", "\x05", "<", "\x06")

func restore(text string) string {
	return strings.NewReplacer("\x01", "|", "\x02", "&", "\x03", ";", "\x04", "#", "\x05", ">", "\x06", "<").Replace(text)
}

// parseCommand parses arguments as feedctl does. Arguments may be missing where there is an
// ellipsis.
func parseCommand(line string) error {
	var args []string
	complete := true
	for _, w := range word.FindAllString(line, -1)[1:] {
		if w == "..." || w == "…" {
			complete = false
			continue
		}
		args = append(args, strings.Trim(w, `'"`))
	}
	root := newRoot(app.New(app.Streams{}))
	root.InitDefaultHelpFlag()
	root.InitDefaultHelpCmd()
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	err = cmd.ParseFlags(rest)
	var missing *pflag.ValueRequiredError
	if err != nil && (complete || !errors.As(err, &missing)) {
		return err
	}
	if help, _ := cmd.Flags().GetBool("help"); help || !complete {
		return nil
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}
