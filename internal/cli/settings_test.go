package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// settings holds the values that a command receives for flags of each kind.
type settings struct {
	Store  string
	Limit  int
	Force  bool
	Header []string
}

// configured runs "feedctl group command" with a configuration file, environment variables and
// arguments, and returns the values of its flags.
func configured(t *testing.T, file string, env map[string]string, args ...string) (settings, error) {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for name, value := range env {
		t.Setenv(name, value)
	}
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	var s settings
	root := &cobra.Command{Use: "feedctl", SilenceErrors: true, SilenceUsage: true}
	root.PersistentFlags().StringVar(&s.Store, "store", "default", "")
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return SetFlags(c, path) }
	group := &cobra.Command{Use: "group"}
	command := &cobra.Command{Use: "command", RunE: func(*cobra.Command, []string) error { return nil }}
	command.Flags().IntVar(&s.Limit, "max-limit", 1, "")
	command.Flags().BoolVar(&s.Force, "force", false, "")
	command.Flags().StringArrayVar(&s.Header, "header", nil, "")
	command.Flags().Bool("group", false, "named like a section")
	if err := command.MarkFlagRequired("max-limit"); err != nil {
		t.Fatal(err)
	}
	group.AddCommand(command)
	root.AddCommand(group)
	root.SetArgs(append([]string{"group", "command"}, args...))
	return s, root.Execute()
}

func TestSourcesOfFlags(t *testing.T) {
	for _, test := range []struct {
		name string
		file string
		env  map[string]string
		args []string
		want settings
	}{
		{"flags", "", nil, []string{"--max-limit=2"}, settings{Store: "default", Limit: 2}},
		{"file, at its top", "store: s\nmax-limit: 3\n", nil, nil, settings{Store: "s", Limit: 3}},
		{"section before top", "max-limit: 3\ngroup:\n  command:\n    max-limit: 4\n    force: true\n", nil, nil, settings{Store: "default", Limit: 4, Force: true}},
		{"environment before file", "group: {command: {max-limit: 4}}\n", map[string]string{"FEEDCTL_MAX_LIMIT": "5"}, nil, settings{Store: "default", Limit: 5}},
		{"flag before environment", "max-limit: 3\n", map[string]string{"FEEDCTL_MAX_LIMIT": "5"}, []string{"--max-limit", "6"}, settings{Store: "default", Limit: 6}},
		{"lists", "max-limit: 1\nheader: ['A: 1', 'B: 2']\n", nil, nil, settings{Store: "default", Limit: 1, Header: []string{"A: 1", "B: 2"}}},
		{"a list of one", "max-limit: 1\nheader: 'A: 1, 2'\n", nil, nil, settings{Store: "default", Limit: 1, Header: []string{"A: 1, 2"}}},
		{"other variables", "max-limit: 1\n", map[string]string{"FEEDCTL_CREDENTIALS": "bearer x"}, nil, settings{Store: "default", Limit: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := configured(t, test.file, test.env, test.args...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBadConfiguration(t *testing.T) {
	for _, test := range []struct {
		name, file, want string
		env              map[string]string
	}{
		{"unknown key", "max-limits: 3\n", `unknown key "max-limits"`, nil},
		{"key of another section", "group: {max-limit: 3}\n", `unknown key "group.max-limit"`, nil},
		{"no YAML", "store: [\n", "read configuration file", nil},
		{"bad value in the file", "max-limit: many\n", "configuration file: set --max-limit", nil},
		{"bad value in the environment", "", "FEEDCTL_MAX_LIMIT: set --max-limit", map[string]string{"FEEDCTL_MAX_LIMIT": "many"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := configured(t, test.file, test.env)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}
