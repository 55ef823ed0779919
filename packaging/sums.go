package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	sumsName    = "SHA256SUMS"
	keyVariable = "FEEDCTL_RELEASE_KEY"
	signer      = "feedctl-release" // the name of all keys in the list of keys that may sign
	namespace   = "file"            // ssh-keygen's name for signatures of files
)

// writeSums writes the SHA-256 of each file in dir to SHA256SUMS, in the format of sha256sum.
func writeSums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, entry := range entries {
		sum, err := digest(filepath.Join(dir, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sum, entry.Name())
	}
	return os.WriteFile(filepath.Join(dir, sumsName), []byte(sums.String()), 0o666)
}

func digest(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return h.Sum(nil), err
}

// sign writes the signature of a file, in the format of OpenSSH, next to the file. The private key
// is in the file key or, if key is empty, in an environment variable. It must belong to one of the
// keys in the file signers, with which users verify the signature. If there is no key, nothing is
// signed.
func sign(ctx context.Context, name, key, signers string) error {
	if key == "" {
		text := os.Getenv(keyVariable)
		if text == "" {
			return nil
		}
		dir, err := os.MkdirTemp("", "feedctl-key-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		key = filepath.Join(dir, "key")
		if err := os.WriteFile(key, []byte(strings.TrimSpace(text)+"\n"), 0o600); err != nil {
			return err
		}
	}
	if _, err := output(ctx, "ssh-keygen", "-Y", "sign", "-f", key, "-n", namespace, name); err != nil {
		return fmt.Errorf("sign %s: %w", name, err)
	}
	if err := verify(ctx, name, signers); err != nil {
		_ = os.Remove(name + ".sig")
		return fmt.Errorf("the key is not in %s, so no one could verify the release: %w", signers, err)
	}
	return nil
}

// verify checks the signature that is next to a file.
func verify(ctx context.Context, name, signers string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	cmd := exec.CommandContext(ctx, "ssh-keygen", "-Y", "verify", "-f", signers, "-I", signer, "-n", namespace, "-s", name+".sig")
	cmd.Stdin = f
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("verify %s: %w\n%s", name, err, out)
	}
	return nil
}
