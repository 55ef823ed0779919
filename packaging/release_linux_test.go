package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var whole = flag.Bool("release", false, "make a release of the last commit twice, compare, install and run it (needs root)")

// A made is a release to be examined by the tests.
type made struct {
	dir     string
	version string // without v
	commit  string
}

// path returns the path of the file in the release that is for this machine and has the given
// suffix.
func (m made) path(suffix string) string {
	return filepath.Join(m.dir, "feedctl_"+m.version+"_"+suffix)
}

// TestRelease makes a release twice, in directories and environments that have nothing in common,
// and uses the files as a user would.
func TestRelease(t *testing.T) {
	if !*whole {
		t.Skip(`takes minutes: "make release-check" runs it`)
	}
	if os.Getuid() != 0 {
		t.Fatal("needs root, to install packages into empty directories and run them there")
	}
	private, signers := key(t)
	commit, err := output(t.Context(), "git", "rev-parse", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	makeRelease := func(name string) string {
		dir := filepath.Join(t.TempDir(), name)
		if err := release(t.Context(), options{repository: "..", commit: commit, out: dir, key: private, signers: signers, platforms: platforms}); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	m := made{dir: makeRelease("first"), commit: commit}
	archives, err := filepath.Glob(filepath.Join(m.dir, "*_"+hostPlatform().String()+".tar.gz"))
	if err != nil || len(archives) != 1 {
		t.Fatal(archives, err)
	}
	m.version = strings.Split(filepath.Base(archives[0]), "_")[1]

	t.Run("reproducible", func(t *testing.T) {
		t.Setenv("TMPDIR", t.TempDir())
		t.Setenv("TZ", "Pacific/Kiritimati")
		t.Setenv("LC_ALL", "tr_TR.UTF-8")
		t.Setenv("GOFLAGS", "-buildvcs=false -tags=netgo")
		t.Setenv("GOAMD64", "v3")
		defer syscall.Umask(syscall.Umask(0o077))
		if out, err := exec.Command("diff", "-r", m.dir, makeRelease("second")).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("complete", func(t *testing.T) { m.complete(t, signers) })
	t.Run("archive", m.archive)
	t.Run("deb", m.deb)
	t.Run("rpm", m.rpm)
	t.Run("image", m.image)
	t.Run("bom", func(t *testing.T) {
		text, err := os.ReadFile(m.path(hostPlatform().String() + ".cdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		validateBOM(t, text)
	})
}

// complete checks the names of the files, and checks their sums and the signature with the
// commands in docs/install.md.
func (m made) complete(t *testing.T, signers string) {
	var got []string
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		got = append(got, strings.Replace(e.Name(), m.version, "V", 1))
	}
	const want = "SHA256SUMS SHA256SUMS.sig feedctl_V_darwin_amd64.cdx.json feedctl_V_darwin_amd64.tar.gz feedctl_V_darwin_arm64.cdx.json feedctl_V_darwin_arm64.tar.gz " +
		"feedctl_V_freebsd_amd64.cdx.json feedctl_V_freebsd_amd64.tar.gz feedctl_V_linux_amd64.cdx.json feedctl_V_linux_amd64.deb feedctl_V_linux_amd64.rpm feedctl_V_linux_amd64.tar.gz " +
		"feedctl_V_linux_arm64.cdx.json feedctl_V_linux_arm64.deb feedctl_V_linux_arm64.rpm feedctl_V_linux_arm64.tar.gz feedctl_V_oci.tar feedctl_V_windows_amd64.cdx.json feedctl_V_windows_amd64.zip"
	if strings.Join(got, " ") != want {
		t.Errorf("has %s", strings.Join(got, " "))
	}
	check := exec.Command("sh", "-c", "ssh-keygen -Y verify -f "+signers+" -I feedctl-release -n file -s SHA256SUMS.sig <SHA256SUMS && sha256sum --check --quiet SHA256SUMS")
	check.Dir = m.dir
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// says checks the printed output of "feedctl version".
func (m made) says(t *testing.T, printed []byte) {
	t.Helper()
	if !strings.HasPrefix(string(printed), fmt.Sprintf("feedctl v%s (%s), %s linux/", m.version, m.commit, runtime.Version())) {
		t.Errorf("prints %s", printed)
	}
}

// run runs a program with root as the root directory of the file system.
func run(t *testing.T, root string, uid int, dir, input, program string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, []string{"HOME=" + dir}, strings.NewReader(input)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %v\n%s", cmd, err, out)
	}
	return out
}

// succeeds runs a tool, which must not print anything.
func succeeds(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

func (m made) archive(t *testing.T) {
	dir := t.TempDir()
	succeeds(t, "tar", "-C", dir, "-xf", m.path(hostPlatform().String()+".tar.gz"))
	top := filepath.Join(dir, "feedctl_"+m.version+"_"+hostPlatform().String())
	for _, name := range []string{"LICENSE", "NOTICES.txt", "README.md", "CHANGELOG.md", "systemd/feedctl-serve@.service"} {
		if _, err := os.Stat(filepath.Join(top, name)); err != nil {
			t.Error(err)
		}
	}
	m.says(t, run(t, top, os.Getuid(), "/", "", "/feedctl", "version"))
	for shell, name := range map[string]string{"bash": "feedctl.bash", "zsh": "_feedctl", "fish": "feedctl.fish"} {
		succeeds(t, shell, "-n", filepath.Join(top, "completions", name))
	}
	pages, err := filepath.Glob(filepath.Join(top, "man", "*.1"))
	if err != nil || len(pages) < 50 {
		t.Fatalf("%d manual pages, %v", len(pages), err)
	}
	succeeds(t, "mandoc", append([]string{"-Tlint", "-Wwarning"}, pages...)...)
}

// The methods deb and rpm install a package into an empty directory, and run the program there.

func (m made) deb(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("dpkg", "--root="+root, "--log=/dev/null", "-i", m.path(hostPlatform().String()+".deb")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m.installed(t, root, "usr/share/zsh/vendor-completions/_feedctl", "usr/share/doc/feedctl/copyright")
}

func (m made) rpm(t *testing.T) {
	root := t.TempDir()
	if out, err := exec.Command("rpm", "--root", root, "--dbpath", "/var/lib/rpm", "-i", "--nodeps", m.path(hostPlatform().String()+".rpm")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m.installed(t, root, "usr/share/zsh/site-functions/_feedctl", "usr/share/licenses/feedctl/LICENSE")
}

func (m made) installed(t *testing.T, root string, more ...string) {
	t.Helper()
	for _, name := range append(more, "usr/lib/systemd/system/feedctl-consume@.service", "usr/lib/systemd/system/feedctl-.service.d/10-sandbox.conf",
		"usr/share/man/man1/feedctl-serve.1.gz", "usr/share/bash-completion/completions/feedctl", "etc/feedctl") {
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil {
			t.Error(err)
		} else if mode := info.Mode().Perm(); mode != 0o644 && mode != 0o755 {
			t.Errorf("%s has mode %v", name, mode)
		}
	}
	m.says(t, run(t, root, os.Getuid(), "/", "", "/usr/bin/feedctl", "version"))
}

// image unpacks the image for this machine and runs feedctl, as the user and in the directory
// given in the image.
func (m made) image(t *testing.T) {
	dir, root := t.TempDir(), t.TempDir()
	f, err := os.Open(m.path("oci.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unpack(t, f, dir)
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(outer); err != nil {
		t.Error(err)
	}
	list, err := outer.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	index, err := outer.ImageIndex(list.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	images, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, d := range images.Manifests {
		if d.Platform.Architecture != runtime.GOARCH {
			continue
		}
		found = true
		img, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Config.User != "65532:65532" || config.Config.WorkingDir != "/data" || config.Config.Entrypoint[0] != "/usr/bin/feedctl" {
			t.Errorf("%+v", config.Config)
		}
		layers := mutate.Extract(img)
		unpack(t, layers, root)
		layers.Close()
	}
	if !found || len(images.Manifests) != 2 {
		t.Fatalf("%+v", images.Manifests)
	}
	if text, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt")); err != nil || bytes.Count(text, []byte("BEGIN CERTIFICATE")) < 100 {
		t.Errorf("%d bytes of certificates, %v", len(text), err)
	}
	m.says(t, run(t, root, nonroot, "/data", "", "/usr/bin/feedctl", "version"))
	run(t, root, nonroot, "/data", `{"id":1}`, "/usr/bin/feedctl", "publish", "a", "--key", "/id")
	if out := run(t, root, nonroot, "/data", "", "/usr/bin/feedctl", "verify", "a"); !strings.Contains(string(out), "1 page, 1 entity") {
		t.Errorf("%s", out)
	}
}

// unpack unpacks a tar file, and sets the owners of the files.
func unpack(t *testing.T, r io.Reader, dir string) {
	t.Helper()
	for all := tar.NewReader(r); ; {
		h, err := all.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o700)
		} else {
			var body []byte
			if body, err = io.ReadAll(all); err == nil {
				err = os.WriteFile(path, body, 0o600)
			}
		}
		err = errors.Join(err, os.Chown(path, h.Uid, h.Gid), os.Chmod(path, h.FileInfo().Mode()))
		if err != nil {
			t.Fatal(err)
		}
	}
}
