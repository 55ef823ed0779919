package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// WriteDocs writes the help of a command and of all its subcommands as Markdown files into dir.
func WriteDocs(dir string, c *cobra.Command) error {
	if err := os.WriteFile(filepath.Join(dir, docName(c)), []byte(markdown(c)), 0o644); err != nil {
		return fmt.Errorf("write documentation: %w", err)
	}
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		if err := WriteDocs(dir, sub); err != nil {
			return err
		}
	}
	return nil
}

func docName(c *cobra.Command) string {
	return strings.ReplaceAll(c.CommandPath(), " ", "-") + ".md"
}

// markdown returns the help of one command. It depends only on the command, not on the
// machine, the time or the environment.
func markdown(c *cobra.Command) string {
	c.InitDefaultHelpFlag()
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s.\n\n```\n%s\n```\n\n", c.CommandPath(), c.Short, c.UseLine())
	fmt.Fprintf(&b, "%s\n", markdownText(c.Long))
	if c.HasExample() {
		fmt.Fprintf(&b, "\n## Examples\n\n```sh\n%s\n```\n", unindent(c.Example))
	}
	if flags := c.NonInheritedFlags().FlagUsages(); flags != "" {
		fmt.Fprintf(&b, "\n## Flags\n\n```\n%s```\n", flags)
	}
	if flags := c.InheritedFlags().FlagUsages(); flags != "" {
		fmt.Fprintf(&b, "\n## Global flags\n\n```\n%s```\n", flags)
	}
	var links []string
	if c.HasParent() {
		links = append(links, docLink(c.Parent()))
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			links = append(links, docLink(sub))
		}
	}
	if len(links) > 0 {
		fmt.Fprintf(&b, "\n## See also\n\n%s\n", strings.Join(links, "\n"))
	}
	return b.String()
}

func docLink(c *cobra.Command) string {
	return fmt.Sprintf("- [%s](%s): %s", c.CommandPath(), docName(c), c.Short)
}

// markdownText turns the indented paragraphs of a help text into code blocks.
func markdownText(text string) string {
	var b strings.Builder
	code, blank := false, false
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" {
			blank = true
			continue
		}
		indented := strings.HasPrefix(line, "  ")
		if code && !indented {
			b.WriteString("```\n")
		}
		if blank {
			b.WriteString("\n")
		}
		if !code && indented {
			b.WriteString("```\n")
		}
		b.WriteString(line + "\n")
		code, blank = indented, false
	}
	if code {
		b.WriteString("```\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func unindent(example string) string {
	lines := strings.Split(example, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "  ")
	}
	return strings.Join(lines, "\n")
}
