// Command notices writes the licences and notices of the modules that are linked into
// feedctl, and of Go itself, each text once, together with the names of its modules:
//
//	go run ./internal/notices > cmd/feedctl/notices.txt
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	if err := write(out); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
	if err := out.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

// A directory is one that may hold a licence: that of a module, or of a package in it that was copied from elsewhere.
type directory struct{ name, path string }

func write(out *bufio.Writer) error {
	directories, err := linked()
	if err != nil {
		return err
	}
	root, err := output("go", "env", "GOROOT")
	if err != nil {
		return err
	}
	directories = append(directories, directory{"Go, with its standard library", strings.TrimSpace(root)})
	var order []string
	owners := map[string][]string{}
	for _, d := range directories {
		texts, err := texts(d.path)
		if err != nil {
			return err
		}
		for _, text := range texts {
			if owners[text] == nil {
				order = append(order, text)
			}
			if !slices.Contains(owners[text], d.name) {
				owners[text] = append(owners[text], d.name)
			}
		}
	}
	fmt.Fprint(out, "feedctl is under the Apache License 2.0. The following parts by others are linked into it.\n")
	for _, text := range order {
		fmt.Fprintf(out, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(owners[text], "\n"), text)
	}
	return nil
}

// linked returns the modules that feedctl is built from on Linux, and the directories of
// the packages that it uses from them.
func linked() ([]directory, error) {
	const format = `{{with .Module}}{{if not .Main}}{{.Path}}{{"\t"}}{{.Dir}}{{"\t"}}{{$.Dir}}{{end}}{{end}}`
	list, err := output("go", "list", "-deps", "-f", format, "./cmd/feedctl")
	if err != nil {
		return nil, err
	}
	var all []directory
	for line := range strings.Lines(list) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 3 {
			continue
		}
		module, root, pkg := fields[0], fields[1], fields[2]
		for dir := pkg; len(dir) >= len(root); dir = filepath.Dir(dir) {
			all = append(all, directory{module, dir})
		}
	}
	slices.SortFunc(all, func(a, b directory) int {
		if order := strings.Compare(a.name, b.name); order != 0 {
			return order
		}
		return strings.Compare(a.path, b.path)
	})
	return slices.Compact(all), nil
}

func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%v: %w", cmd, err)
	}
	return string(out), nil
}

var licence = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)`)

func texts(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, entry := range entries {
		if !entry.Type().IsRegular() || !licence.MatchString(entry.Name()) || filepath.Ext(entry.Name()) == ".go" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
		all = append(all, strings.TrimSpace(string(text)))
	}
	return all, nil
}
