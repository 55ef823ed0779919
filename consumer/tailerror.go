package consumer

import "fmt"

// A TailError means that a feed was read newest first, as far back as it goes, and the data is
// still not complete: neither the feed's beginning nor the snapshot was reached, or there are held
// patches for whose keys the feed has no PUT.
type TailError struct {
	URL  string // the feed's entry point
	Page string // URL of the oldest page; empty if Held is not 0
	// Held is the number of held patches without a PUT.
	Held int64
	err  error // why the previous page could not be read, or nil
}

func (e *TailError) Error() string {
	if e.Held > 0 {
		return fmt.Sprintf("read %s newest first: %d PATCH entities have no PUT before them: "+
			"start over from a snapshot with an empty sink", shown(e.URL), e.Held)
	}
	text := fmt.Sprintf("read %s newest first: the data is not complete: the pages before %s were pruned, "+
		"and neither the feed's beginning nor a snapshot was reached: start over from a snapshot with an empty sink", shown(e.URL), shown(e.Page))
	if e.err != nil {
		text += ": " + e.err.Error()
	}
	return text
}

func (e *TailError) Unwrap() error { return e.err }
