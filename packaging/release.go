package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

type options struct {
	repository string
	commit     string
	out        string
	key        string // file of the private key, or empty
	signers    string
	platforms  []platform
}

// A build holds what the parts of a release have in common.
type build struct {
	source  string    // directory with the files of the commit
	version string    // in the form printed by "feedctl version", such as "v1.2.3"
	time    time.Time // of the commit, and of all files in the release
	docs    []file    // manual pages and completions, named as in an archive
}

// number returns the version without the v, as used in the names of files and
// packages.
func (b build) number() string { return strings.TrimPrefix(b.version, "v") }

// release writes a release to o.out. The release is complete when SHA256SUMS exists.
func release(ctx context.Context, o options) error {
	if entries, err := os.ReadDir(o.out); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty: remove it first", o.out)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(o.out, 0o777); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "feedctl-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	// Try the key now, so that an unusable key is reported before minutes of work.
	probe := filepath.Join(work, "probe")
	if err := os.WriteFile(probe, nil, 0o666); err != nil {
		return err
	}
	if err := sign(ctx, probe, o.key, o.signers); err != nil {
		return err
	}
	b, err := checkout(ctx, o.repository, o.commit, filepath.Join(work, "source"))
	if err != nil {
		return err
	}
	binaries, err := compileAll(ctx, b.source, work, o.platforms)
	if err != nil {
		return err
	}
	b.version = binaries[0].version()
	host := slices.IndexFunc(binaries, func(bin binary) bool { return bin.platform == hostPlatform() })
	if host < 0 {
		return fmt.Errorf("the release has no binary for this machine, %s, to make the manual pages with", hostPlatform())
	}
	if b.docs, err = documents(ctx, binaries[host].path, work, b); err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for _, bin := range binaries {
		group.Go(func() error { return writeParts(o.out, b, bin) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := writeImage(filepath.Join(o.out, b.name("oci.tar")), b, binaries); err != nil {
		return err
	}
	if err := writeSums(o.out); err != nil {
		return err
	}
	return sign(ctx, filepath.Join(o.out, sumsName), o.key, o.signers)
}

// name returns the name of a file in the release.
func (b build) name(rest string) string { return "feedctl_" + b.number() + "_" + rest }

// writeParts writes those files of the release that are for one platform.
func writeParts(out string, b build, bin binary) error {
	if err := writeArchive(out, b, bin); err != nil {
		return err
	}
	if err := writeBOM(filepath.Join(out, b.name(bin.platform.String()+".cdx.json")), b, bin); err != nil {
		return err
	}
	if bin.platform.os == "linux" {
		return writePackages(out, b, bin)
	}
	return nil
}
