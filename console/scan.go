package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/human"
	multipart "github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/storage"
)

// Limits of one scan. The page that shows its results has a link for continuing the scan.
const (
	scanFound   = 50                    // entities
	scanPages   = 400                   // of the feed
	scanBytes   = 32 << 20              // of pages
	scanTime    = 50 * time.Millisecond // after which no further page is read
	scanTimeFar = 2 * time.Second       // scanTime for a remote store
)

// A place is where a scan begins: at the entity before Index on Page, or at the last entity of Page if Index is 0. The
// zero place stands for the newest entity.
type place struct {
	Page  int64
	Index int
}

// String returns the place as written in a URL.
func (p place) String() string {
	if p.Index == 0 {
		return strconv.FormatInt(p.Page, 10)
	}
	return fmt.Sprintf("%d.%d", p.Page, p.Index)
}

// parsePlace parses the result of String. It returns the zero place for any other text.
func parsePlace(text string) place {
	page, index, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(page, 10, 64)
	if err != nil || n < 1 {
		return place{}
	}
	i, _ := strconv.Atoi(index)
	return place{n, max(i, 0)}
}

// A scan searches a feed backwards for entities that match.
type scan struct {
	// match reports whether an entity with this header is a hit, and because of which field; "" if the reason is
	// obvious.
	match func(multipart.Header) (field string, ok bool)

	Found []hit // newest first
	// From and To are the newest and the oldest of the pages that were read, and Oldest is the oldest page of the feed.
	// Bytes is the size of the pages that were read.
	From, To, Oldest int64
	Bytes            int64
	// Partly lists the pages of which only the first scanBytes were read.
	Partly []int64
	// Next is the place at which to continue; nil if the beginning of the feed was reached.
	Next *place
}

// A hit is an entity that was found.
type hit struct {
	entityRow
	Field string // the header field that matched; "" if that is obvious
}

// A scanView is the part of a page that shows a scan; see the template "scan".
type scanView struct {
	Scan *scan  // nil if nothing was scanned
	Next string // URL for continuing the scan; "" if the beginning of the feed was reached
	None string // the text shown to people if nothing was found
}

// Looked says in words which pages were searched.
func (s *scan) Looked() string {
	where := "page " + human.Count(s.From)
	if s.To < s.From {
		where = fmt.Sprintf("pages %s to %s", human.Count(s.From), human.Count(s.To))
	}
	if s.Next == nil {
		return fmt.Sprintf("Searched %s (%s), back to the beginning of the feed.", where, human.Bytes(s.Bytes))
	}
	return fmt.Sprintf("Searched %s (%s); the oldest page is %s.", where, human.Bytes(s.Bytes), human.Count(s.Oldest))
}

// scanFrom scans a feed from a place backwards.
func (c *Console) scanFrom(ctx context.Context, name string, from place, s *scan) error {
	f, newest, floor, err := c.config.Feeds.Look(ctx, name)
	if err != nil {
		return err
	}
	if from.Page == 0 || from.Page > newest.Number {
		from = place{Page: newest.Number}
	}
	begun, most := c.config.Now(), scanTime
	if storage.PropertiesOf(c.config.Store).Remote {
		most = scanTimeFar
	}
	o := &opened{feed: f, newest: newest, floor: floor}
	s.From, s.To, s.Oldest = from.Page, from.Page, floor
	for n := from.Page; n >= floor; n-- {
		if s.From-n >= scanPages || s.Bytes >= scanBytes || c.config.Now().Sub(begun) >= most || len(s.Found) == scanFound {
			s.Next = &place{Page: n}
			return nil
		}
		before := 0
		if n == from.Page {
			before = from.Index
		}
		err := s.page(ctx, o, n, before)
		if errors.Is(err, chain.ErrPruned) {
			return nil
		}
		if err != nil || s.Next != nil {
			return err
		}
	}
	return nil
}

// page searches page n: the entities whose index is less than before, or all entities if before is 0.
func (s *scan) page(ctx context.Context, o *opened, n int64, before int) error {
	if err := o.open(ctx, n); err != nil {
		return err
	}
	defer o.close()
	limited := &io.LimitedReader{R: o.page.Whole(o.body), N: scanBytes}
	o.reader.Reset(limited, o.page.Boundary)
	var hits []hit // the last hits on the page, oldest first
	room, more := scanFound-len(s.Found), false
	for part, err := range o.parts() {
		if err != nil && limited.N == 0 {
			s.Partly = append(s.Partly, n)
			break
		}
		if err != nil {
			return err
		}
		if before > 0 && part.Index >= before {
			break
		}
		if field, ok := s.match(part.Header); ok {
			if len(hits) == room {
				hits, more = slices.Delete(hits, 0, 1), true
			}
			hits = append(hits, hit{o.row(part), field})
		}
	}
	if limited.N > 0 {
		if err := o.verify(); err != nil {
			return err
		}
	}
	s.To, s.Bytes = n, s.Bytes+min(o.page.Size, scanBytes)
	for _, h := range slices.Backward(hits) {
		s.Found = append(s.Found, h)
	}
	if more {
		s.Next = &place{n, hits[0].Index}
	}
	return nil
}
