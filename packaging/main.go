// Command packaging makes a release from a commit: archives for several systems, Debian and RPM
// packages, a container image, lists of the modules in the binaries, and checksums.
//
//	go run -C packaging . -out ../dist
//
// The release depends only on the commit and the version of Go: files have the time of the commit, and
// uncommitted changes have no effect. The command is a separate module, so that its dependencies do
// not become dependencies of feedctl.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o := options{platforms: platforms}
	flag.StringVar(&o.repository, "repository", "..", "repository in `DIR`")
	flag.StringVar(&o.commit, "commit", "HEAD", "`COMMIT` or tag to release")
	flag.StringVar(&o.out, "out", "", "write the release into `DIR`, which must be empty or not exist")
	flag.StringVar(&o.key, "key", "", "sign with the SSH key in `FILE` (default: the key in the variable "+keyVariable+", or no signature)")
	flag.StringVar(&o.signers, "signers", "allowed_signers", "`FILE` of the keys that may sign")
	flag.Parse()
	if flag.NArg() > 0 || o.out == "" {
		flag.Usage()
		os.Exit(2)
	}
	if err := release(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}
