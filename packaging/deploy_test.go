package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// parses checks that feedctl accepts the commands and flags of a command line.
func parses(t *testing.T, args []string) {
	t.Helper()
	cmd := exec.Command("../bin/feedctl", append(slices.Clone(args), "--help")...)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "Usage:\n  feedctl "+args[0]) {
		t.Errorf("feedctl %s: %v (\"make build\" builds it)\n%s", strings.Join(args, " "), err, out)
	}
}

// TestCompose reads the Compose file as docker compose does, which includes checking it against the
// schema.
func TestCompose(t *testing.T) {
	o, err := cli.NewProjectOptions([]string{"compose/compose.yaml"}, cli.WithEnv([]string{
		"FEEDCTL_VERSION=1.2.3", "COUCHDB_PASSWORD=a", "POSTGRES_PASSWORD=b",
	}))
	if err != nil {
		t.Fatal(err)
	}
	p, err := o.LoadProject(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	ours := 0
	for _, s := range p.Services {
		if s.Image != "feedctl:1.2.3" {
			continue
		}
		ours++
		parses(t, s.Command)
		if !s.ReadOnly || len(s.CapDrop) != 1 || len(s.SecurityOpt) != 1 {
			t.Errorf("%s has more rights than it needs", s.Name)
		}
	}
	if ours != 3 {
		t.Errorf("%d services of feedctl, want 3", ours)
	}
}

// TestKubernetes builds the base and the overlay, and decodes the resulting documents into the
// types of Kubernetes. Unknown fields are errors.
func TestKubernetes(t *testing.T) {
	for dir, kinds := range map[string][]string{
		"kubernetes/base":                        {"Service", "Deployment", "PodDisruptionBudget"},
		"kubernetes/overlays/bucket-to-postgres": {"ConfigMap", "Service", "Deployment", "Deployment", "PodDisruptionBudget"},
	} {
		resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range resources.Resources() {
			got = append(got, r.GetKind())
			text, err := r.AsYAML()
			if err != nil {
				t.Fatal(err)
			}
			decode(t, r.GetKind(), text)
		}
		slices.Sort(got)
		slices.Sort(kinds)
		if !slices.Equal(got, kinds) {
			t.Errorf("%s has %v, want %v", dir, got, kinds)
		}
	}
}

func decode(t *testing.T, kind string, text []byte) {
	t.Helper()
	var deployment appsv1.Deployment
	into, ok := map[string]any{
		"Deployment": &deployment, "Service": &corev1.Service{}, "ConfigMap": &corev1.ConfigMap{}, "PodDisruptionBudget": &policyv1.PodDisruptionBudget{},
	}[kind]
	if !ok {
		t.Errorf("no Go type for kind %s", kind)
		return
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Errorf("%v in\n%s", err, text)
	}
	for _, c := range deployment.Spec.Template.Spec.Containers {
		parses(t, c.Args)
		if s := c.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
			t.Errorf("%s may write to its root file system", deployment.Name)
		}
		for label, value := range deployment.Spec.Selector.MatchLabels {
			if deployment.Spec.Template.Labels[label] != value {
				t.Errorf("the pods of %s do not have its label %s=%s", deployment.Name, label, value)
			}
		}
	}
}

// TestUnits has systemd check the units, and rate their exposure from 0 to 10: the rating must be
// at most 1.5.
func TestUnits(t *testing.T) {
	const program = "/usr/bin/feedctl"
	files, err := tree("systemd")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var units []string
	for _, f := range files {
		path := filepath.Join(dir, f.name)
		if f.mode.IsDir() {
			if err := os.Mkdir(path, 0o777); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for line := range strings.Lines(string(f.body)) {
			if command, ok := strings.CutPrefix(line, "ExecStart="+program+" "); ok {
				parses(t, strings.Fields(command))
			}
		}
		// Replace the program by one that exists, since systemd looks for it.
		text := strings.ReplaceAll(string(f.body), program, "/bin/true")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(path) == ".service" {
			units = append(units, path)
		}
	}
	if len(units) != 4 {
		t.Errorf("%d units, want 4", len(units))
	}
	for _, args := range [][]string{{"verify", "--man=no"}, {"security", "--offline=true", "--threshold=15", "--no-pager"}} {
		cmd := exec.Command("systemd-analyze", append(args, units...)...)
		cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":")
		if out, err := cmd.CombinedOutput(); err != nil || args[0] == "verify" && len(out) > 0 {
			t.Errorf("%v: %v\n%s", cmd, err, out)
		}
	}
}
