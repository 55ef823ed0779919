package main

import (
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/exit"
)

// TestSecretsInArguments puts secrets where they do not belong, with other mistakes. Other
// users may see the command line, but logs and bug reports must not show them.
func TestSecretsInArguments(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, arg := range []string{
		"HTTP://ann:hunter2@127.0.0.1:1/feeds/a", "http://ann:hunter2@127.0.0.1:1/feeds/a", "https://hunter2@127.0.0.1:1/feeds/a",
		"http//ann:hunter2@127.0.0.1:1/feeds/a", "http:/ann:hunter2@127.0.0.1:1/feeds/a", "http:ann:hunter2@127.0.0.1:1/feeds/a",
		"ftp://ann:hunter2@127.0.0.1:1/feeds/a", "Postgres://ann:hunter2@127.0.0.1:1/a?schema=9", "postgres//ann:hunter2@127.0.0.1:1/a",
		"postgres://ann:hunter2@127.0.0.1:1/a?schema=9#a", "postgres:/ann:hunter2@127.0.0.1:1/a#b#c", "postgres://ann:hun/hunter2@127.0.0.1:x/a",
	} {
		for _, line := range []string{
			"publish ARG", "publish a - --to ARG", "publish a --store ARG", "consume ARG --into -", "consume http://127.0.0.1:1/a --into ARG",
			"consume http://127.0.0.1:1/a --retries 1 --into couchdb:ARG", "consume http://127.0.0.1:1/feeds/a --into - --retries 1 --from snapshot:ARG",
			"consume file:nowhere#a --into - --from snapshot:ARG", "tail ARG --follow=false", "inspect ARG", "verify ARG", "doctor ARG",
			"prune ARG --keep-pages 1", "bridge couchdb ARG a", "bridge quarantine a --retry ARG", "snapshot list ARG",
			"snapshot from-feed a --public-url ARG", "serve --public-url ARG --listen x", "outbox status --db ARG", "inspect a --allow-origin ARG",
			"publish a b ARG", "version ARG",
		} {
			if strings.Contains(line, "--into - --retries") && !strings.Contains(arg, "http") {
				continue
			}
			for _, options := range []string{"", " --json"} {
				line := strings.ReplaceAll(line, "ARG", arg) + options
				code, stdout, stderr := feedctl(t, "", strings.Fields(line)...)
				if code == exit.OK || strings.Contains(stdout+stderr, "hunter2") {
					t.Errorf("feedctl %s: exit status %d: %s%s", line, code, stdout, stderr)
				}
			}
		}
	}
	for _, args := range [][]string{
		{"inspect", "http://127.0.0.1:1/feeds/a", "--header", "Bearer hunter2"},
		{"inspect", "http://127.0.0.1:1/feeds/a", "--header", "Authorization: Bearer hunter2"},
	} {
		if code, stdout, stderr := feedctl(t, "", args...); code != exit.Usage || strings.Contains(stdout+stderr, "hunter2") {
			t.Errorf("feedctl %q: exit status %d: %s%s", args, code, stdout, stderr)
		}
	}
}

// TestSchemeCase: schemes are case-insensitive (RFC 3986, section 3.1).
func TestSchemeCase(t *testing.T) {
	dir := t.TempDir()
	mustRun(t, zones, "publish", "FILE:"+dir+"/store#zones", "--key", "/name")
	mustRun(t, "", "consume", "File:"+dir+"/store#zones", "--into", "JSONL:"+dir+"/zones")
	for _, line := range []string{"inspect HTTP://127.0.0.1:1/feeds/a --retries 1", "publish a - --to HTTPS://127.0.0.1:1 --retries 1"} {
		if code, _, stderr := feedctl(t, "1\n", strings.Fields(line)...); code != exit.Error || !strings.Contains(stderr, "refused") {
			t.Errorf("feedctl %s: exit status %d: %s", line, code, stderr)
		}
	}
}
