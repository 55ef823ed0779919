// Package cli complements cobra: it sets flags from the environment and a file, explains errors in the
// command line, and writes the help as Markdown.
package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/internal/suggest"
)

// variables returns the prefix of the names of a program's environment variables.
func variables(c *cobra.Command) string { return strings.ToUpper(c.Root().Name()) + "_" }

// Variable returns the name of the environment variable that sets the given flag of c, and the same flag of
// other commands of the program.
func Variable(c *cobra.Command, flag string) string {
	return variables(c) + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// SetFlags sets every flag of c that is not on the command line to its value in the environment or, failing
// that, in the configuration file. An empty path means the file config.yaml in the program's part of the
// user's configuration directory; that file need not exist.
func SetFlags(c *cobra.Command, path string) error {
	settings := koanf.New(".")
	if err := loadFile(settings, c, path); err != nil {
		return err
	}
	fromEnv := koanf.New(".")
	if err := fromEnv.Load(env.Provider(".", env.Opt{Prefix: variables(c), TransformFunc: func(variable, value string) (string, any) {
		name := strings.TrimPrefix(variable, variables(c))
		return strings.ToLower(strings.ReplaceAll(name, "_", "-")), value
	}}), nil); err != nil {
		return fmt.Errorf("read the environment: %w", err)
	}
	if err := settings.Merge(fromEnv); err != nil {
		return fmt.Errorf("merge the environment: %w", err)
	}
	var errs []error
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || !settings.Exists(f.Name) || unconfigurable(f.Name) {
			return
		}
		if _, section := settings.Get(f.Name).(map[string]any); section {
			return // this is the section of a command with the same name as the flag
		}
		if err := setFlag(c.Flags(), f, settings); err != nil {
			source := "configuration file"
			if fromEnv.Exists(f.Name) {
				source = Variable(c, f.Name)
			}
			errs = append(errs, fmt.Errorf("%s: set --%s: %w", source, f.Name, err))
		}
	})
	return errors.Join(errs...)
}

// unconfigurable reports whether a flag can only be set on the command line.
func unconfigurable(flag string) bool {
	return flag == "config" || flag == "help" || flag == "version"
}

// WarnUnknownVariables logs environment variables that begin with the name of the program but set no flag of
// any command, and are probably misspelt. It skips the known variables, which have other purposes, and those
// of tests, which have TEST_ after the name of the program.
func WarnUnknownVariables(root *cobra.Command, log *slog.Logger, known ...string) {
	flags := make(map[string]bool)
	addKeys(flags, root)
	for flag := range flags {
		known = append(known, Variable(root, flag))
	}
	slices.Sort(known)
	prefix := variables(root)
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, prefix) || strings.HasPrefix(name, prefix+"TEST_") || slices.Contains(known, name) {
			continue
		}
		attrs := []any{"variable", name}
		if meant := suggest.Closest(name, known); meant != "" {
			attrs = append(attrs, "did_you_mean", meant)
		}
		log.Warn("environment variable sets no flag", attrs...)
	}
}

func setFlag(flags *pflag.FlagSet, f *pflag.Flag, settings *koanf.Koanf) error {
	list, isList := f.Value.(pflag.SliceValue)
	if _, scalar := settings.Get(f.Name).(string); isList && !scalar {
		f.Changed = true
		return list.Replace(settings.Strings(f.Name))
	}
	return flags.Set(f.Name, settings.String(f.Name))
}

// loadFile merges the top level of the file, and then the command's section of the file, into settings.
func loadFile(settings *koanf.Koanf, c *cobra.Command, path string) error {
	optional := path == ""
	if optional {
		dir, err := os.UserConfigDir()
		if err != nil {
			return nil // without a home directory, there is no file
		}
		path = filepath.Join(dir, c.Root().Name(), "config.yaml")
	}
	whole := koanf.New(".")
	if err := whole.Load(file.Provider(path), yaml.Parser()); err != nil {
		if optional && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("read configuration file %s: %w", path, err)
	}
	if err := checkKeys(whole, c.Root()); err != nil {
		return fmt.Errorf("read configuration file %s: %w", path, err)
	}
	if err := settings.Merge(whole); err != nil {
		return fmt.Errorf("read configuration file %s: %w", path, err)
	}
	if section := section(c); section != "" {
		if err := settings.Merge(whole.Cut(section)); err != nil {
			return fmt.Errorf("read configuration file %s: section %s: %w", path, section, err)
		}
	}
	return nil
}

// section returns the key of a command's section, such as "snapshot.from-feed".
func section(c *cobra.Command) string {
	if !c.HasParent() {
		return ""
	}
	if outer := section(c.Parent()); outer != "" {
		return outer + "." + c.Name()
	}
	return c.Name()
}

// checkKeys refuses keys that set no flag of any command: a misspelt key must not be ignored silently.
func checkKeys(file *koanf.Koanf, root *cobra.Command) error {
	known := make(map[string]bool)
	addKeys(known, root)
	for _, key := range file.Keys() {
		if !known[key] {
			return fmt.Errorf("unknown key %q: no command has such a flag", key)
		}
	}
	return nil
}

func addKeys(known map[string]bool, c *cobra.Command) {
	add := func(f *pflag.Flag) {
		if unconfigurable(f.Name) {
			return
		}
		known[f.Name] = true
		if section := section(c); section != "" {
			known[section+"."+f.Name] = true
		}
	}
	c.LocalFlags().VisitAll(add)
	c.InheritedFlags().VisitAll(add)
	for _, sub := range c.Commands() {
		addKeys(known, sub)
	}
}
