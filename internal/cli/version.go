package cli

import (
	"runtime"
	"runtime/debug"
)

// A Version says from what a binary was built.
type Version struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from files that differ from the commit
	Go       string `json:"go"`
	Platform string `json:"platform"` // operating system and architecture, such as "linux/amd64"
}

// ThisVersion returns the version that the linker recorded: a module version if the binary was made
// by "go install", or a commit if it was built in a checkout.
func ThisVersion() Version {
	v := Version{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
