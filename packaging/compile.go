package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// A platform is an operating system and a processor, with the names that Go uses.
type platform struct{ os, arch string }

// platforms lists the platforms for which archives are made. On Windows, feedctl works with stores
// in S3 and PostgreSQL, but refuses stores and sinks in directories, since Go cannot sync
// directories there.
var platforms = []platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"freebsd", "amd64"}, {"windows", "amd64"},
}

func (p platform) String() string { return p.os + "_" + p.arch }

// program returns the file name of feedctl.
func (p platform) program() string {
	if p.os == "windows" {
		return "feedctl.exe"
	}
	return "feedctl"
}

func hostPlatform() platform { return platform{runtime.GOOS, runtime.GOARCH} }

// A binary is the feedctl program for one platform.
type binary struct {
	platform platform
	path     string
	body     []byte
	info     *debug.BuildInfo
}

func (b binary) version() string { return b.info.Main.Version }

// checkout clones a repository and checks out a commit into dir. So only committed files are
// built, and Go finds the tags from which it derives the version.
func checkout(ctx context.Context, repository, commit, dir string) (build, error) {
	hash, err := output(ctx, "git", "-C", repository, "rev-parse", "--verify", commit+"^{commit}")
	if err != nil {
		return build{}, err
	}
	if _, err := output(ctx, "git", "clone", "--quiet", "--shared", "--no-checkout", repository, dir); err != nil {
		return build{}, err
	}
	if _, err := output(ctx, "git", "-C", dir, "checkout", "--quiet", "--detach", hash); err != nil {
		return build{}, err
	}
	seconds, err := output(ctx, "git", "-C", dir, "show", "-s", "--format=%ct")
	if err != nil {
		return build{}, err
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return build{}, fmt.Errorf("time of commit %s: %w", hash, err)
	}
	return build{source: dir, time: time.Unix(n, 0).UTC()}, nil
}

// compileAll builds feedctl for all platforms.
func compileAll(ctx context.Context, source, dir string, platforms []platform) ([]binary, error) {
	binaries := make([]binary, len(platforms))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	for i, p := range platforms {
		group.Go(func() (err error) {
			binaries[i], err = compile(ctx, source, filepath.Join(dir, p.String()), p)
			return err
		})
	}
	return binaries, group.Wait()
}

// compile builds feedctl into dir. Environment variables that would change the result have no
// effect.
func compile(ctx context.Context, source, dir string, p platform) (binary, error) {
	path := filepath.Join(dir, p.program())
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "./cmd/feedctl")
	cmd.Dir = source
	cmd.Env = append(os.Environ(),
		"GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0", "CGO_ENABLED=0", "GOFLAGS=-buildvcs=true", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return binary{}, fmt.Errorf("build for %s: %w\n%s", p, err, out)
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return binary{}, err
	}
	body, err := os.ReadFile(path)
	return binary{p, path, body, info}, err
}

// output runs a program and returns its output, without surrounding white space.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}
