package jobscmd

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/console"
	"github.com/feedctl/feedctl/internal/actions"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/jobsready"
	"github.com/feedctl/feedctl/internal/metrics"
	"github.com/feedctl/feedctl/internal/webconsole"
	"github.com/feedctl/feedctl/internal/webserver"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/jobs/api"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/sink"
)

// listenFlags holds the flags that say where a node serves the API, the console and metrics.
type listenFlags struct {
	address             string
	metrics             string // address of --metrics
	openMetrics         bool
	console             webconsole.Flags
	readFile, writeFile string
	config              api.Config
}

func (f *listenFlags) flags(flags *pflag.FlagSet) {
	flags.StringVar(&f.address, "listen", "", "serve the API of jobs on this `ADDRESS`, such as 127.0.0.1:8090; port 0 picks a free port (default: no API)")
	f.console.Var(flags)
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
	if err := f.console.Check(len(f.config.ReadAuth) + len(f.config.WriteAuth)); err != nil {
		return err
	}
	if f.metrics != "" && !f.openMetrics {
		if err := api.CheckMetrics(f.metrics, f.config); err != nil {
			return exit.WithHint(exit.Usagef("%w", err), "--read-credentials-file FILE, or --insecure-allow-anonymous-metrics")
		}
	}
	return nil
}

// serveMetrics serves metrics, to clients that may read, and /readyz, to everyone, until the command
// ends.
func (f *listenFlags) serveMetrics(c *commands, store *jobs.Scheduler, collector *metrics.Jobs) error {
	handler, err := api.Guard(c.Metrics(collector), f.config)
	if err != nil {
		return err
	}
	return c.ServeMetricsBy(f.metrics, handler, jobsready.Check(store))
}

// serveConsole serves the console until the command ends. Its actions are carried out on this node,
// with the node's files and credentials.
func (f *listenFlags) serveConsole(ctx context.Context, c *commands, store *jobs.Scheduler, node string) error {
	runner := actions.Runner{Log: c.Log, Transport: c.Transport}
	shown := console.Config{
		Jobs: store, JobsName: sink.Redact(c.db), JobActions: &actions.Jobs{Runner: runner, Node: node},
		ReadAuth: people(f.config.ReadAuth), WriteAuth: people(f.config.WriteAuth),
	}
	url, err := f.console.Start(ctx, c.App, shown, nil)
	if err == nil && url != "" {
		c.Log.Info("serving the console", "url", url)
	}
	return err
}

// people converts credentials of the API to credentials of the console.
func people(list []api.Credential) (all []console.Credential) {
	for _, c := range list {
		all = append(all, console.Credential(c))
	}
	return all
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
