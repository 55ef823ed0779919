package jobscmd

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/jobs"
)

func newTenants(c *commands) *cobra.Command {
	var shares, limits []string
	cmd := &cobra.Command{
		Use:   "tenants",
		Short: "List namespaces and what they use, and set their shares and limits",
		Long: `Tenants prints a line for each namespace: its shares, how many of its jobs may run at the
same time, what it has used lately in slot seconds, and how many of its jobs run and wait.
If jobs of several namespaces wait for a slot, those of the namespace that has used least
in proportion to its shares run first.

--set-shares NAMESPACE=SHARES sets shares, from 1 to 1000; a namespace has 100 until then.
--set-max-running NAMESPACE=N limits how many of its jobs run at the same time on all nodes;
0 is no limit. NAMESPACE=default, for either flag, resets both; a namespace without jobs is
then no longer listed.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl jobs tenants
  feedctl jobs tenants --set-shares shop=200 --set-max-running shop=50`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, err := tenantSettings(shares, limits)
			if err != nil {
				return err
			}
			if err := setTenants(cmd.Context(), c, settings); err != nil {
				return explain(err)
			}
			header := []string{"NAMESPACE", "SHARES", "MAX RUNNING", "USED", "JOBS", "RUNNING", "WAITING"}
			return explain(overview(cmd.Context(), c, (*jobs.Scheduler).Tenants, header, tenantRow))
		},
	}
	cmd.Flags().StringArrayVar(&shares, "set-shares", nil, "set `NAMESPACE=SHARES`; may be repeated")
	cmd.Flags().StringArrayVar(&limits, "set-max-running", nil, "limit the running jobs of a namespace: `NAMESPACE=N`; may be repeated")
	return cmd
}

func tenantRow(t *jobs.TenantStatus) []string {
	limit := ""
	if t.MaxRunning > 0 {
		limit = strconv.Itoa(t.MaxRunning)
	}
	used := human.Duration(time.Duration(t.Usage * float64(time.Second)))
	return []string{t.Namespace, strconv.Itoa(t.Shares), limit, used, strconv.Itoa(t.Jobs), strconv.Itoa(t.Running), strconv.Itoa(t.Waiting)}
}

// A tenantSetting is the change that a flag makes to a namespace. The zero Tenant resets the
// setting to its default.
type tenantSetting struct {
	namespace string
	tenant    jobs.Tenant
}

// tenantSettings parses the values of the flags --set-shares and --set-max-running.
func tenantSettings(shares, limits []string) (settings []tenantSetting, err error) {
	for _, text := range shares {
		s, number, err := tenantFlag(text)
		if err != nil || number != nil && (*number < 1 || *number > 1000) {
			return nil, exit.Usagef("--set-shares %q: want NAMESPACE=SHARES, with 1 to 1000 shares, or NAMESPACE=default", text)
		}
		s.tenant.Shares = number
		settings = append(settings, s)
	}
	for _, text := range limits {
		s, number, err := tenantFlag(text)
		if err != nil || number != nil && *number < 0 {
			return nil, exit.Usagef("--set-max-running %q: want NAMESPACE=N, with 0 for no limit, or NAMESPACE=default", text)
		}
		s.tenant.MaxRunning = number
		settings = append(settings, s)
	}
	return settings, nil
}

// tenantFlag parses NAMESPACE=NUMBER or NAMESPACE=default. For the latter, number is nil.
func tenantFlag(text string) (s tenantSetting, number *int, err error) {
	namespace, value, _ := strings.Cut(text, "=")
	s.namespace = namespace
	if namespace != "" && value == "default" {
		return s, nil, nil
	}
	n, err := strconv.Atoi(value)
	if err == nil && namespace == "" {
		err = strconv.ErrSyntax
	}
	return s, &n, err
}

func setTenants(ctx context.Context, c *commands, settings []tenantSetting) error {
	if len(settings) == 0 {
		return nil
	}
	store, err := c.open(ctx)
	if err != nil {
		return err
	}
	for _, s := range settings {
		if s.tenant == (jobs.Tenant{}) {
			err = store.ResetTenant(ctx, s.namespace)
		} else {
			err = store.SetTenant(ctx, s.namespace, s.tenant)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
