package jobs

import (
	"context"
	"slices"
	"strings"

	"github.com/feedctl/feedctl/internal/jobdb"
)

type namespacesKey struct{}

// Within returns a context for a caller who may know only what is in some namespaces, of which there
// must be at least one. [Scheduler.List], Totals, Export and Tenants leave out other namespaces, and
// errors and explanations do not name jobs in them. Use [Visible] to check the IDs of jobs that the
// caller provides.
func Within(ctx context.Context, namespaces ...string) context.Context {
	return context.WithValue(ctx, namespacesKey{}, namespaces)
}

// visible returns the namespaces of [Within], and whether the context is limited to them.
func visible(ctx context.Context) (namespaces []string, limited bool) {
	namespaces, limited = ctx.Value(namespacesKey{}).([]string)
	return namespaces, limited
}

// Visible reports whether the caller for whom ctx was made may know what is in a namespace; see [Within].
func Visible(ctx context.Context, namespace string) bool {
	namespaces, limited := visible(ctx)
	return !limited || slices.Contains(namespaces, namespace)
}

// visible adds the condition that the caller for whom ctx was made may know about a job; see [Within].
func (c *conditions) visible(ctx context.Context) {
	if namespaces, limited := visible(ctx); limited {
		c.add("j.namespace IN ("+jobdb.List(len(c.args)+1, len(namespaces))+")", anys(namespaces)...)
	}
}

// nameTo returns the name of a job or, if the caller for whom ctx was made may not know the
// namespace of the job, a replacement for the name.
func nameTo(ctx context.Context, id, name string) string {
	if Visible(ctx, namespaceOf(id)) {
		return name
	}
	return "a job of another namespace"
}

func namespaceOf(id string) string {
	namespace, _, _ := strings.Cut(id, "/")
	return namespace
}

// errorTo returns the text of an error that may come from any job or, if the caller for whom ctx was
// made may not know all namespaces, a replacement for the text.
func errorTo(ctx context.Context, text string) string {
	if _, limited := visible(ctx); limited && text != "" {
		return "the error is not shown, as it may name jobs of other namespaces"
	}
	return text
}
