package main

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/bridge/couchdb"
	couch "github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/units"
	"github.com/feedctl/feedctl/storage"
)

func newBridge(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "bridge",
		Short: "Publish what changes in a database",
		Long: `Bridge turns the changes of a database into entities of a feed, each exactly once. The place
in the database is kept in the feed itself.` + exit.Help(),
		Example: `  feedctl bridge couchdb https://couch.example.org/zones zones --follow
  feedctl bridge quarantine zones`,
		Args: cobra.NoArgs,
		RunE: app.NeedCommand,
	}
	c.AddCommand(newBridgeCouchDB(a), newBridgeQuarantine(a))
	return c
}

// sourceFlags say how a database is reached, and where a bridge keeps its index.
type sourceFlags struct {
	credentialsFile string
	index           string
	maxDocument     int64
}

func (f *sourceFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.credentialsFile, "credentials-file", "", "`FILE` with the credential for the database (default: the variable FEEDCTL_CREDENTIALS)")
	flags.StringVar(&f.index, "index", "", "`FILE` that knows which revisions the feed holds (default: one in the user's cache directory); if it is lost, it is made from the feed")
	units.SizeVar(flags, &f.maxDocument, "max-document", 0, "put documents into quarantine that have more `BYTES`; 0: no limit")
}

// sourceHelp explains the credential of a database.
const sourceHelp = `

The credential for the database, in --credentials-file or FEEDCTL_CREDENTIALS, is one of the
lines "basic USER:PASSWORD", "session USER:PASSWORD" (a cookie), "bearer TOKEN" and "proxy
USER SECRET [ROLES]".`

// sourceMemory is up to which size a document is held in memory, in bytes.
const sourceMemory = 256 << 10

// config adds to c what a bridge from a database to a feed in a store needs.
func (f *sourceFlags) config(a *app.App, rawURL string, at locate.Stored, store storage.Store, c couchdb.Config) (couchdb.Config, error) {
	if _, err := locate.ParseURL(rawURL); err != nil {
		return c, err
	}
	if f.maxDocument < 0 {
		return c, exit.Usagef("--max-document is %d, must not be negative", f.maxDocument)
	}
	auth, err := (credential.Source{File: f.credentialsFile, Variable: "FEEDCTL_CREDENTIALS"}).ReadCouch()
	if err != nil {
		return c, err
	}
	c.Source, err = couch.Open(couch.Config{HTTP: &http.Client{Transport: a.Transport}, URL: rawURL, Auth: auth, MaxWhole: sourceMemory, Log: a.Log})
	if err != nil {
		return c, exit.Usagef("%w", err)
	}
	c.Target = at.Identity()
	c.Store, c.Feed, c.Log, c.MaxDocument = store, at.Name, a.Log, f.maxDocument
	c.Index, err = f.indexFile(c.Target)
	return c, err
}

// hintSource says what can be done about a server to which there is no connection.
func hintSource(err error) error {
	var network *net.OpError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &certificate):
		return exit.WithHint(err, "renewing or correcting the server's certificate, with its intermediate certificates; for a private authority, the variable SSL_CERT_FILE with its certificate")
	case errors.Is(err, http.ErrSchemeMismatch):
		return exit.WithHint(err, "http:// in the URL of the database, or another port")
	case errors.As(err, &network) && network.Op == "dial":
		return exit.WithHint(err, "another host or port in the URL of the database, or starting its server; --retries NUMBER waits for it")
	}
	return err
}

// indexFile returns the file of the index, which is another one for each feed.
func (f *sourceFlags) indexFile(target string) (string, error) {
	if f.index != "" {
		return f.index, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", exit.Usagef("there is no cache directory (%w): give --index FILE", err)
	}
	sum := sha256.Sum256([]byte(target))
	return filepath.Join(dir, "feedctl", "couchdb", fmt.Sprintf("%s.index", hex.EncodeToString(sum[:12]))), nil
}
