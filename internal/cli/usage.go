package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/internal/suggest"
)

// These match the texts of cobra's errors, which have no types.
var (
	unknownCommand = regexp.MustCompile(`^unknown command ("(?:[^"\\]|\\.)*")`)
	wrongCount     = regexp.MustCompile(`^(?:accepts|requires at least) .*arg\(s\), (?:only )?received ([0-9]+)$`)
	missingFlags   = regexp.MustCompile(`^required flag\(s\) (".*") not set$`)
	together       = regexp.MustCompile(`^if any flags in the group \[(.*)\] are set they must all be set; missing \[(.*)\]$`)
	oneRequired    = regexp.MustCompile(`^at least one of the flags in the group \[(.*)\] is required$`)
	exclusive      = regexp.MustCompile(`^if any flags in the group \[.*\] are set none of the others can be; \[(.*)\] were all set$`)
)

// Explain rewords cobra's error for an invalid command line to say what is wrong and what
// is expected. It returns other texts unchanged.
func Explain(c *cobra.Command, text string) string {
	if m := unknownCommand.FindStringSubmatch(text); m != nil {
		return unknownCommandText(c, m[1])
	}
	if m := wrongCount.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("%s got %s: want %q", Name(c), countText(m[1]), wanted(c))
	}
	if m := missingFlags.FindStringSubmatch(text); m != nil {
		var names []string
		for name := range strings.SplitSeq(strings.ReplaceAll(m[1], `"`, ""), ", ") {
			value, _ := pflag.UnquoteUsage(c.Flags().Lookup(name))
			names = append(names, "--"+name+" "+value)
		}
		return fmt.Sprintf("%s needs %s", Name(c), strings.Join(names, " and "))
	}
	if m := together.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("%s go together: %s is missing", flagList(m[1], "and"), flagList(m[2], "and"))
	}
	if m := oneRequired.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("%s needs at least one of %s", Name(c), flagList(m[1], "or"))
	}
	if m := exclusive.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("%s cannot be combined: give one of them", flagList(m[1], "and"))
	}
	return text
}

// unknownCommandText returns an error message for an unexpected argument, which is given in quotes. In its
// place, c expects one of its subcommands, or nothing if it has none.
func unknownCommandText(c *cobra.Command, quoted string) string {
	if !c.HasSubCommands() {
		return fmt.Sprintf("%s takes no arguments, got %s", Name(c), quoted)
	}
	name, err := strconv.Unquote(quoted)
	if err != nil {
		name = quoted
	}
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	of := ""
	if c.HasParent() {
		of = " of " + Name(c)
	}
	return fmt.Sprintf("unknown command %s%s%s", quoted, of, suggest.DidYouMean(name, names, ""))
}

// Name returns the name of a command without the name of the program.
func Name(c *cobra.Command) string {
	return strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ")
}

// wanted returns the usage line of a command, without what cobra adds for flags.
func wanted(c *cobra.Command) string {
	if !c.HasParent() {
		return c.Use
	}
	return c.Parent().CommandPath() + " " + c.Use
}

func countText(n string) string {
	switch n {
	case "0":
		return "no arguments"
	case "1":
		return "1 argument"
	}
	return n + " arguments"
}

// flagList writes "--a, --b and --c" for "a b c".
func flagList(names, and string) string {
	list := strings.Fields(names)
	for i := range list {
		list[i] = "--" + list[i]
	}
	last := len(list) - 1
	if last == 0 {
		return list[0]
	}
	return strings.Join(list[:last], ", ") + " " + and + " " + list[last]
}

// ExplainFlag rewords an error about a flag. The result names the flag only once, and says which values the
// flag accepts.
func ExplainFlag(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var bare *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		name := unknown.GetSpecifiedName()
		return fmt.Errorf("unknown flag: --%s%s", name, suggest.DidYouMean(name, names, "--"))
	case errors.As(err, &bare) && bare.GetFlag() != nil:
		value, _ := pflag.UnquoteUsage(bare.GetFlag())
		return fmt.Errorf("--%s needs a value: --%[1]s %s", bare.GetFlag().Name, value)
	case errors.As(err, &invalid):
		return fmt.Errorf("--%s %q %s", invalid.GetFlag().Name, invalid.GetValue(), invalidText(invalid))
	}
	return err
}

// invalidText says what is wrong with the value of a flag, or which value is expected.
func invalidText(err *pflag.InvalidValueError) string {
	switch err.GetFlag().Value.Type() {
	case "int", "int64":
		if errors.Is(err, strconv.ErrRange) {
			return "is out of range"
		}
		return "is not a whole number"
	case "bool":
		return "is not true or false"
	}
	return err.Unwrap().Error()
}

// PlainUsage removes the backquotes around the names of values from the usage texts of all flags, since shells
// show these texts when they complete flags.
func PlainUsage(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") })
	c.PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") })
	for _, sub := range c.Commands() {
		PlainUsage(sub)
	}
}
