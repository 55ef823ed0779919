package main

import (
	"bytes"
	"encoding/pem"
	"io"
	"io/fs"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nonroot is the id of the user that runs feedctl in the image. The number is a convention.
const nonroot = 65532

// writeImage writes one image with all binaries for Linux: a tar file of an OCI layout, with an index of the
// platforms.
func writeImage(name string, b build, binaries []binary) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, bin := range binaries {
		if bin.platform.os != "linux" {
			continue
		}
		img, err := image(b, bin)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			MediaType: types.OCIManifestSchema1, Platform: &v1.Platform{OS: bin.platform.os, Architecture: bin.platform.arch},
		}})
	}
	dir, err := os.MkdirTemp("", "feedctl-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return err
	}
	// Docker reads the name of a loaded image from the first annotation; other tools read the tag from the
	// second.
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          "docker.io/library/feedctl:" + tag(b),
		"org.opencontainers.image.ref.name": tag(b),
	})); err != nil {
		return err
	}
	files, err := tree(dir)
	if err != nil {
		return err
	}
	return create(name, func(w io.Writer) error { return writeTar(w, files, b.time) })
}

// tag returns the version as an image tag, in which a plus sign is not allowed.
func tag(b build) string { return strings.ReplaceAll(b.number(), "+", "-") }

// image returns the image for one platform. It contains feedctl, the certificates of authorities, and
// directories to which feedctl may write, but no shell and no other program.
func image(b build, bin binary) (v1.Image, error) {
	files := []file{
		{name: "data", mode: fs.ModeDir | 0o755, uid: nonroot},
		{name: "etc", mode: fs.ModeDir | 0o755},
		{name: "etc/passwd", mode: 0o644, body: []byte("feedctl:x:65532:65532::/data:/sbin/nologin\n")},
		{name: "etc/group", mode: 0o644, body: []byte("feedctl:x:65532:\n")},
		{name: "etc/ssl", mode: fs.ModeDir | 0o755},
		{name: "etc/ssl/certs", mode: fs.ModeDir | 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, body: authorities()},
		{name: "tmp", mode: fs.ModeDir | fs.ModeSticky | 0o777},
		{name: "usr", mode: fs.ModeDir | 0o755},
		{name: "usr/bin", mode: fs.ModeDir | 0o755},
		{name: "usr/bin/feedctl", mode: 0o755, body: bin.body},
	}
	var content bytes.Buffer
	if err := writeTar(&content, files, b.time); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: b.time}, CreatedBy: "make release"}})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = bin.platform.os, bin.platform.arch
	config.Created = v1.Time{Time: b.time}
	config.Config = v1.Config{
		User:         "65532:65532",
		Entrypoint:   []string{"/usr/bin/feedctl"},
		WorkingDir:   "/data",
		Env:          []string{"PATH=/usr/bin", "HOME=/data"},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "feedctl",
			"org.opencontainers.image.version":  b.number(),
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.source":   "https://github.com/feedctl/feedctl",
		},
	}
	return mutate.ConfigFile(img, config)
}

// authorities returns the certificates that Mozilla trusts without conditions, in PEM format.
func authorities() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer
		}
	}
	return text.Bytes()
}
