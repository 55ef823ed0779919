package sink

import (
	"fmt"
	"strings"
	"time"

	"github.com/feedctl/feedctl/digest"
)

// A Row is what a sink has for a key, to be compared with the feed.
type Row struct {
	Key string
	// Sum is the sum of the entity, or zero if the sink does not have the body as it was published.
	Sum digest.Sum
	// ContentID is the Content-ID of the entity, or "" if the sink does not have it.
	ContentID string
	// Version differs after each change of the row, no matter who makes it; "" if the sink has no versions.
	Version string
}

// A ChangedError means that rows are no longer as a batch expected them. These rows are left alone, and
// nothing of the batch was committed; but a sink without transactions may have written other rows of the
// batch. The same batch without these keys may then be applied again.
type ChangedError struct {
	Keys []string
}

func (e *ChangedError) Error() string {
	const few = 3
	quoted := make([]string, 0, few)
	for _, key := range e.Keys[:min(few, len(e.Keys))] {
		quoted = append(quoted, fmt.Sprintf("%q", key))
	}
	return fmt.Sprintf("%d rows have changed since they were compared: %s", len(e.Keys), strings.Join(quoted, ", "))
}

// About describes what a sink has, to be compared with the feed.
type About struct {
	// Ordered means that rows can be read quickly in the order of the bytes of their keys.
	Ordered bool
	// Whole means that all rows but a few have sums.
	Whole bool
	// Shared means that the table may have rows of other feeds.
	Shared bool
	// Remarks say what cannot be compared, each as a clause for users.
	Remarks []string
}

// A Logged is what a log of entities says about one of them.
type Logged struct {
	ContentID    string
	LastModified time.Time
}
