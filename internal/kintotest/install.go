package kintotest

import (
	"fmt"
	"path/filepath"

	"github.com/feedctl/feedctl/internal/installed"
)

var (
	server = installed.Packages{Name: "kintotest", Source: "internal/kintotest/server", Lock: "requirements.txt", Has: "bin/python", Target: "kinto"}
	client = installed.Packages{Name: "kintojs", Source: "internal/kintotest/client", Lock: "package-lock.json", Has: "node_modules", Target: "kinto"}
)

// Python returns the path of the Python interpreter in the virtual environment with Kinto and its
// client, kinto-http.
func Python() (string, error) {
	python, _, err := installation()
	return python, err
}

// installation returns the paths of the installed Python interpreter and of the server's script.
func installation() (python, script string, err error) {
	source, dir, err := server.Find()
	if err != nil {
		return "", "", fmt.Errorf("find the Kinto server: %w", err)
	}
	return filepath.Join(dir, "bin", "python"), filepath.Join(source, "server.py"), nil
}
