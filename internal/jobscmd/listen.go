package jobscmd

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/metrics"
	"github.com/feedctl/feedctl/internal/webserver"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/jobs/api"
	"github.com/feedctl/feedctl/server"
)

// listenFlags say where a node serves the API and metrics.
type listenFlags struct {
	address             string
	metrics             string // address
	openMetrics         bool
	readFile, writeFile string
	config              api.Config
}

func (f *listenFlags) flags(flags *pflag.FlagSet) {
	flags.StringVar(&f.address, "listen", "", "serve the API of jobs on this `ADDRESS`, such as 127.0.0.1:8090; port 0 takes a free one (default: no API)")
	flags.StringVar(&f.metrics, "metrics", "", app.MetricsUsage)
	flags.BoolVar(&f.openMetrics, "insecure-allow-anonymous-metrics", false, "allow everyone who can reach the address of --metrics to read them")
	flags.StringVar(&f.readFile, "read-credentials-file", "", "`FILE` with the credentials that allow reading (default: the variable FEEDCTL_READ_CREDENTIALS)")
	flags.StringVar(&f.writeFile, "write-credentials-file", "", "`FILE` with the credentials that allow changes (default: the variable FEEDCTL_WRITE_CREDENTIALS)")
}

// check checks the flags, and reads the credentials.
func (f *listenFlags) check() (err error) {
	for flag, address := range map[string]string{"--listen": f.address, "--metrics": f.metrics} {
		if address == "" {
			continue
		}
		if err := webserver.CheckAddress(address); err != nil {
			return exit.Usagef("%s %q is not HOST:PORT: %w", flag, address, err)
		}
	}
	if f.config.ReadAuth, err = credentials(f.readFile, "FEEDCTL_READ_CREDENTIALS"); err != nil {
		return err
	}
	if f.config.WriteAuth, err = credentials(f.writeFile, "FEEDCTL_WRITE_CREDENTIALS"); err != nil {
		return err
	}
	if f.address != "" {
		if err := api.CheckExposure(f.address, f.config); err != nil {
			return exit.WithHint(exit.Usagef("%w", err), "--read-credentials-file FILE and --write-credentials-file FILE")
		}
	}
	if f.metrics != "" && !f.openMetrics {
		if err := api.CheckMetrics(f.metrics, f.config); err != nil {
			return exit.WithHint(exit.Usagef("%w", err), "--read-credentials-file FILE, or --insecure-allow-anonymous-metrics")
		}
	}
	return nil
}

// serveMetrics serves metrics until the command ends, to those who may read.
func (f *listenFlags) serveMetrics(c *commands, collector *metrics.Jobs) error {
	handler, err := api.Guard(c.Metrics(collector), f.config)
	if err != nil {
		return err
	}
	return c.ServeMetricsBy(f.metrics, handler)
}

func credentials(file, variable string) (list []api.Credential, err error) {
	all, err := (credential.Source{File: file, Variable: variable}).ReadLimited(jobs.ValidNamespace)
	for _, c := range all {
		list = append(list, api.Credential{Credential: server.Credential(c.Credentials), Namespaces: c.Namespaces})
	}
	return list, err
}

// serve serves the API until ctx ends.
func (f *listenFlags) serve(ctx context.Context, c *commands, store *jobs.Scheduler) error {
	if f.address == "" {
		return nil
	}
	f.config.Logger = c.Log
	var err error
	if f.config.Runs, err = store.Pages(ctx, "/runs"); err != nil {
		return err
	}
	handler, err := api.New(store, f.config)
	if err != nil {
		return err
	}
	web := webserver.Server{Server: server.NewHTTPServer(handler, c.Log), Drain: handler.Close, Log: c.Log}
	return web.Run(ctx, f.address, func(url string) error {
		c.Log.Info("serving the API of jobs", "url", url)
		return nil
	})
}
