package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

var commitTime = time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)

// key creates a key, and a list of the keys that may sign, which contains only this key.
func key(t *testing.T) (key, signers string) {
	t.Helper()
	dir := t.TempDir()
	key, signers = filepath.Join(dir, "key"), filepath.Join(dir, "signers")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(signers, append([]byte(signer+` namespaces="file" `), public...), 0o666); err != nil {
		t.Fatal(err)
	}
	return key, signers
}

func TestSign(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "b"), []byte("two"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := writeSums(dir); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, sumsName)
	if text, err := os.ReadFile(name); err != nil || string(text) != "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3  b\n" {
		t.Errorf("%q, %v", text, err)
	}
	private, signers := key(t)
	_, others := key(t)

	if err := sign(ctx, name, "", signers); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(name + ".sig"); err == nil {
		t.Error("signed without a key")
	}
	if err := sign(ctx, name, private, others); err == nil || !strings.Contains(err.Error(), "the key is not in "+others) {
		t.Error("signed with a key that is not in the list:", err)
	}
	if _, err := os.Stat(name + ".sig"); err == nil {
		t.Error("a signature that cannot be verified remains")
	}
	text, err := os.ReadFile(private)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(keyVariable, string(text))
	if err := sign(ctx, name, "", signers); err != nil {
		t.Error("with the key in a variable:", err)
	}
	if err := os.WriteFile(name, []byte("other sums\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if verify(ctx, name, signers) == nil {
		t.Error("the signature of other bytes is accepted")
	}
}

// TestBOM validates the list of the modules in the binary of this test, and checks that the
// validation can fail.
func TestBOM(t *testing.T) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("no build information")
	}
	name := filepath.Join(t.TempDir(), "bom.json")
	if err := writeBOM(name, build{version: "v1.2.3", time: commitTime}, binary{hostPlatform(), "", []byte("code"), info}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	validateBOM(t, text)
	for _, want := range []string{
		`"purl": "pkg:golang/github.com/goreleaser/nfpm/v2@v2.`, `"purl": "pkg:golang/std@1.`, `"timestamp": "2026-02-03T04:05:06Z"`,
		`5694d08a2e53ffcae0c3103e5ad6f6076abd960eb1f8a56577040bc1028f702b`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%.2000s", want, text)
		}
	}
	if schema(t).Validate(map[string]any{"bomFormat": "CycloneDX", "specVersion": "1.6", "components": "none"}) == nil {
		t.Error("the schema accepts anything")
	}
}

func validateBOM(t *testing.T, text []byte) {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema(t).Validate(document); err != nil {
		t.Errorf("%v in\n%.2000s", err, text)
	}
}

// schema returns the CycloneDX schema from the module of the CycloneDX library.
func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	dir, err := output(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go")
	if err != nil {
		t.Fatal(err)
	}
	const base = "http://cyclonedx.org/schema/"
	c := jsonschema.NewCompiler()
	for name, file := range map[string]string{"bom-1.6.schema.json": "bom-1.6.schema.json", "spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json"} {
		text, err := os.ReadFile(filepath.Join(dir, "schema", file))
		if err != nil {
			t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource(base+name, document); err != nil {
			t.Fatal(err)
		}
	}
	s, err := c.Compile(base + "bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestManual(t *testing.T) {
	help := "# feedctl list\n\nList feeds.\n\n```\nfeedctl list [flags]\n```\n\nList lists them.\n\n## Examples\n\n```sh\nfeedctl list\n```\n\n## See also\n\n- [feedctl](feedctl.md): feeds\n"
	got := string(manual("feedctl-list", help, build{version: "v1.2.3", time: commitTime}))
	for _, want := range []string{
		`.TH FEEDCTL-LIST 1 "2026-02-03" "feedctl 1.2.3"`, ".SH NAME\n", "feedctl-list - list feeds", ".SH SYNOPSIS", "feedctl list [flags]", ".SH DESCRIPTION", ".SH SEE ALSO", `\fBfeedctl\fP(1): feeds`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
