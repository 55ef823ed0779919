package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/internal/shell"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot/snapshots"
)

// Limits of the list of snapshots.
const (
	snapshotsAPage  = 25
	snapshotsAtOnce = 8 // indexes that are read at the same time
)

// snapshotsView is a page of the list of snapshots: the newest snapshot of each name, or all snapshots of one name.
type snapshotsView struct {
	page
	Name  string // "" for all
	Rows  []snapshotRow
	First string // URL of the first page; "" if this is the first
	Next  string
}

// A snapshotRow is a snapshot in a list.
type snapshotRow struct {
	Name, ID string
	Created  time.Time
	Entities int64
	Pages    int
	Feed     string // that the snapshot was made from; "" if not known
	FeedPage int64
	FeedTime time.Time
	Problem  string // why the snapshot cannot be read
}

// getSnapshots answers requests for "/snapshots". In the query, "name" is the name of the snapshots to list, and
// "after" is where to continue.
func (c *Console) getSnapshots(r *http.Request) (content, error) {
	ctx, name, after := r.Context(), r.URL.Query().Get("name"), r.URL.Query().Get("after")
	for _, name := range []string{name, after} {
		if err := layout.CheckName(name); name != "" && err != nil {
			return nil, err
		}
	}
	words := []string{"feedctl", "snapshot", "list", "--store", c.config.StoreName}
	v := &snapshotsView{page: page{Title: "Snapshots"}, Name: name}
	var err error
	if name == "" {
		err = v.listNames(ctx, c, after)
	} else {
		words = append(words, name)
		v.Title = "Snapshots " + name
		err = v.listIDs(ctx, c, after)
	}
	if err != nil {
		return nil, err
	}
	v.Command = shell.Line(words...)
	if after != "" {
		v.First = snapshotsURL(name, "")
	}
	return v, c.readSnapshots(ctx, v.Rows)
}

// snapshotsURL returns the URL of a page of the list of snapshots.
func snapshotsURL(name, after string) string {
	query := url.Values{}
	for key, value := range map[string]string{"name": name, "after": after} {
		if value != "" {
			query.Set(key, value)
		}
	}
	return "snapshots?" + query.Encode()
}

// listNames adds the names of snapshots that follow the given name.
func (v *snapshotsView) listNames(ctx context.Context, c *Console, after string) error {
	for name, err := range snapshots.Names(ctx, c.config.Store, after) {
		if err != nil {
			return fmt.Errorf("list snapshots: %w", err)
		}
		if len(v.Rows) == snapshotsAPage {
			v.Next = snapshotsURL("", v.Rows[len(v.Rows)-1].Name)
			break
		}
		v.Rows = append(v.Rows, snapshotRow{Name: name})
	}
	return nil
}

// listIDs adds the snapshots with the name v.Name, newest first: those with an ID less than before, or all if before is
// empty.
func (v *snapshotsView) listIDs(ctx context.Context, c *Console, before string) error {
	ids, _, err := snapshots.List(ctx, c.config.Store, v.Name)
	if err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	for _, id := range slices.Backward(ids) {
		if before != "" && id >= before {
			continue
		}
		if len(v.Rows) == snapshotsAPage {
			v.Next = snapshotsURL(v.Name, v.Rows[len(v.Rows)-1].ID)
			break
		}
		v.Rows = append(v.Rows, snapshotRow{Name: v.Name, ID: id})
	}
	return nil
}

// readSnapshots completes rows from the indexes of the snapshots.
func (c *Console) readSnapshots(ctx context.Context, rows []snapshotRow) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(snapshotsAtOnce)
	for n := range rows {
		group.Go(func() error {
			err := c.readSnapshot(ctx, &rows[n])
			if errors.Is(err, chain.ErrCorrupt) || errors.Is(err, feedstore.ErrNoSnapshot) {
				rows[n].Problem, err = cut(err.Error(), maxText), nil
			}
			return err
		})
	}
	return group.Wait()
}

func (c *Console) readSnapshot(ctx context.Context, row *snapshotRow) (err error) {
	if row.ID == "" {
		if row.ID, err = c.config.Feeds.NewestSnapshot(ctx, row.Name); err != nil {
			return err
		}
	}
	index, err := c.config.Feeds.SnapshotIndex(ctx, row.Name, row.ID)
	if err != nil {
		return err
	}
	row.Created, row.Entities, row.Pages = index.CreatedAt, index.Entities, index.PageCount
	if index.Feed != nil {
		row.FeedTime = index.Feed.LastModified
		if feed, n, err := layout.ParseFeedPageURL(index.Feed.Page); err == nil {
			row.Feed, row.FeedPage = feed, n
		}
	}
	return nil
}
