package kintotest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Python returns the Python of the virtual environment with Kinto and its client,
// kinto-http.
func Python() (string, error) {
	python, _, err := installation()
	return python, err
}

// installation returns the installed Python and the script of the server.
func installation() (python, script string, err error) {
	source, dir, err := installed("server", "requirements.txt", "kintotest-", "bin/python")
	if err != nil {
		return "", "", fmt.Errorf("find the Kinto server: %w", err)
	}
	return filepath.Join(dir, "bin", "python"), filepath.Join(source, "server.py"), nil
}

// installed returns a directory of sources, and that of what its lock file names, which has
// the file want. The latter's name is the prefix and the digest of the lock file, so that
// another lock file is another installation.
func installed(name, lock, prefix, want string) (source, dir string, err error) {
	top, err := moduleRoot()
	if err != nil {
		return "", "", err
	}
	source = filepath.Join(top, "internal", "kintotest", name)
	text, err := os.ReadFile(filepath.Join(source, lock))
	if err != nil {
		return "", "", err
	}
	dir = filepath.Join(top, ".cache", fmt.Sprintf("%s%x", prefix, sha256.Sum256(text))[:len(prefix)+12])
	if _, err := os.Stat(filepath.Join(dir, want)); err != nil {
		return "", "", fmt.Errorf("%w: run \"make kinto\"", err)
	}
	return source, dir, nil
}

// moduleRoot returns the directory with go.mod, at or above the working directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = parent
	}
}
