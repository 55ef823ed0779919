package jobscmd_test

import (
	"context"
	"regexp"
	"sync"
	"testing"

	"github.com/feedctl/feedctl/internal/exit"
)

// TestConsole runs a worker with a console. Some of its credentials are limited to namespaces.
func TestConsole(t *testing.T) {
	m := newMachine(t)
	m.write("jobs.yaml", twoJobs)
	m.run(0, "jobs", "apply", "-f", "jobs.yaml")
	m.fails(2, []string{"jobs", "worker", "--console", "nonsense"}, "--console \"nonsense\" is not HOST:PORT")
	m.fails(2, []string{"jobs", "worker", "--console", "0.0.0.0:0"}, "the console would be open to everyone")
	m.write("readers", "bearer all\nnamespace=none bearer few\n")
	m.write("writers", "bearer all\n")
	ctx, stop := context.WithCancelCause(m.Context())
	served := regexp.MustCompile(`serving the console.*(http://[0-9.:]+)`)
	var once sync.Once
	m.runSeeing(ctx, 130, false, func(printed string) {
		if match := served.FindStringSubmatch(printed); match != nil {
			once.Do(func() {
				go func() {
					defer stop(exit.ErrInterrupted)
					m.responds(ctx, "GET", match[1]+"/jobs", "all", "shop/")
					m.responds(ctx, "GET", match[1]+"/jobs", "few", "No job matches")
					m.responds(ctx, "GET", match[1]+"/nodes", "few", "only for jobs in the namespaces none")
					m.responds(ctx, "GET", match[1]+"/jobs", "nobody", "This console needs credentials")
				}()
			})
		}
	}, "jobs", "worker", "--max-jobs", "0", "--console", "127.0.0.1:0", "--read-credentials-file", "readers", "--write-credentials-file", "writers")
}
