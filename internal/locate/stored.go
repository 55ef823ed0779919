package locate

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/storage/stores"
)

// A Stored is a feed or a snapshot in a store.
type Stored struct {
	Store string // URL
	Name  string
}

// Parse parses an argument that names a feed or a snapshot in a store: STORE#NAME, or NAME in the
// store with the given URL.
func Parse(arg, storeURL string) (Stored, error) {
	at := Stored{Store: storeURL, Name: arg}
	store, name, ok := strings.Cut(arg, "#")
	switch {
	case ok && !stores.IsURL(store):
		return Stored{}, exit.Usagef("%q is not STORE#NAME, where STORE is %s%s", sink.Redact(arg), stores.Forms, DirectoryHint(arg, ""))
	case ok && name == "":
		return Stored{}, exit.Usagef("%q names nothing after the \"#\": want STORE#NAME", sink.Redact(arg))
	case ok && strings.Contains(name, "#"):
		return Stored{}, exit.Usagef("%q has more than one \"#\": write it as %%23 in the URL of STORE", sink.Redact(arg))
	case ok:
		at = Stored{store, name}
	case IsWeb(arg):
		return Stored{}, exit.Usagef("%q is on a server: want NAME, in the store of --store, or STORE#NAME", sink.Redact(arg))
	case stores.IsURL(arg):
		return Stored{}, exit.Usagef("%q is a store: name a feed or snapshot in it, as in %q", sink.Redact(arg), sink.Redact(arg)+"#zones")
	}
	if err := layout.CheckName(at.Name); err != nil {
		if !ok && (strings.ContainsAny(arg, ":@") || strings.Contains(arg, "//")) { // a malformed URL, which may contain a secret
			err = exit.Usagef("%q is neither NAME, in the store of --store, nor STORE#NAME, where STORE is %s", sink.Redact(arg), stores.Forms)
		}
		return Stored{}, err
	}
	return at, nil
}

// Identity returns a URL that identifies the feed or snapshot by where it is, not by how its store
// is accessed (working directory, region, endpoint). It is empty if the store's URL is invalid.
func (s Stored) Identity() string {
	u := stores.Identity(s.Store)
	if u == nil {
		return ""
	}
	u.Fragment = s.Name
	return u.String()
}

// CheckStore returns an error if rawURL, the value of --store, is malformed. It does not access
// the store.
func CheckStore(rawURL string) error {
	if !stores.IsURL(rawURL) {
		return exit.Usagef("--store %q is not %s%s", sink.Redact(rawURL), stores.Forms, DirectoryHint(rawURL, ""))
	}
	if strings.Contains(rawURL, "#") {
		return exit.Usagef("--store %q has a \"#\": STORE#NAME is for arguments; write \"#\" as %%23 in a path", sink.Redact(rawURL))
	}
	if strings.HasPrefix(strings.ToLower(rawURL), "postgres") {
		_, err := ParseDatabase("store", rawURL)
		return err
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return exit.Usagef("store %q is not a URL: want %s; write \"%%\" as %%25 in a path", sink.Redact(rawURL), stores.Forms)
	}
	if err := stores.Check(u); err != nil {
		return exit.Usagef("store %q: %w", sink.Redact(rawURL), err)
	}
	return nil
}

// DirectoryHint returns a hint for the end of an error message. If arg should name a store, or something in a store,
// but is the path of a directory, the hint says how to write arg. Otherwise it is empty.
func DirectoryHint(arg, name string) string {
	dir, given, ok := strings.Cut(arg, "#")
	if ok {
		name = "#" + given
	}
	info, err := os.Stat(dir)
	if strings.Contains(dir, ":") || (err != nil || !info.IsDir()) && !strings.HasPrefix(dir, ".") && !filepath.IsAbs(dir) {
		return ""
	}
	return fmt.Sprintf("; for the store in a directory write %q", "file:"+dir+name)
}
