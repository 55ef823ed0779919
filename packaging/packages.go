package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

// writePackages writes the packages described in nfpm.yaml.
func writePackages(out string, b build, bin binary) error {
	stage, err := os.MkdirTemp("", "feedctl-stage-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	if err := fill(stage, b, bin); err != nil {
		return err
	}
	description, err := os.ReadFile(filepath.Join(b.source, "packaging", "nfpm.yaml"))
	if err != nil {
		return err
	}
	for _, format := range []string{"deb", "rpm"} {
		// A version without a tag has the form of a pre-release, in which RPM does not allow a
		// hyphen.
		variables := map[string]string{"ARCH": bin.platform.arch, "VERSION": b.number(), "STAGE": stage}
		config, err := nfpm.ParseWithEnvMapping(bytes.NewReader(description), func(name string) string { return variables[name] })
		if err != nil {
			return fmt.Errorf("nfpm.yaml: %w", err)
		}
		info, err := config.Get(format)
		if err != nil {
			return err
		}
		info = nfpm.WithDefaults(info)
		info.MTime = b.time
		packager, err := nfpm.Get(format)
		if err != nil {
			return err
		}
		name := filepath.Join(out, b.name(bin.platform.String()+"."+format))
		if err := create(name, func(w io.Writer) error { return packager.Package(info, w) }); err != nil {
			return err
		}
	}
	return nil
}

// fill writes the files of an archive into a directory, with the time of the release. It compresses
// manual pages and the changelog.
func fill(dir string, b build, bin binary) error {
	files, err := contents(b, bin)
	if err != nil {
		return err
	}
	for _, f := range files {
		if strings.HasPrefix(f.name, "man/") || f.name == "CHANGELOG.md" {
			f.name += ".gz"
			f.body, err = compress(f.body)
			if err != nil {
				return err
			}
		}
		path := filepath.Join(dir, filepath.FromSlash(f.name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.body, f.mode.Perm()); err != nil {
			return err
		}
		if err := os.Chmod(path, f.mode.Perm()); err != nil { // whatever the umask is
			return err
		}
		if err := os.Chtimes(path, b.time, b.time); err != nil {
			return err
		}
	}
	return nil
}

func compress(text []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(text); err != nil {
		return nil, err
	}
	err = z.Close()
	return b.Bytes(), err
}
