package task

import (
	"context"
	"errors"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/reconcile"
	"github.com/feedctl/feedctl/restore"
	"github.com/feedctl/feedctl/sink/sinks"
)

// ofRevisions reports whether a comparison may have failed because the sink is a copy of a CouchDB database
// with its revisions: revisions have no Content-IDs, and a key may have several revisions.
func ofRevisions(err error) bool {
	return errors.Is(err, sinks.ErrRevisions) || errors.Is(err, reconcile.ErrVersions) || errors.Is(err, consumer.ErrNoDigest)
}

// compareRevisions compares a database in CouchDB with a feed of "bridge couchdb --revs", leaf by leaf. It
// reads both, and needs no digest. The error matches [restore.ErrNoRevisions] if the feed was not made with
// --revs.
func (r *Reconcile) compareRevisions(ctx context.Context, e *Env, at *locate.Location, client *consumer.Client, spec string, found func(reconcile.Line) error) (*reconcile.Report, error) {
	s, err := parseSink(spec)
	if err != nil {
		return nil, err
	}
	o, err := e.SinkOptions(spec, r.IntoCredential)
	if err != nil {
		return nil, err
	}
	position := func() (string, error) {
		standings, err := sinks.Standings(ctx, spec, o)
		if err != nil {
			return "", err
		}
		return standings[0].Position.ContentID, nil
	}
	before, err := position()
	switch {
	case err != nil:
		return nil, err
	case before == "":
		return nil, reconcile.ErrFilling
	}
	config := restore.Config{Client: client, URL: at.URL, Feed: at.URL, At: consumer.UntilContentID(before), KeyPointer: r.Key, Logger: e.Log}
	if at.Store != nil {
		config.Feed = at.Title
	}
	if config.Snapshots, err = at.Snapshot(""); err != nil {
		config.Snapshots = "" // the feed is read from its beginning
	}
	o.CouchDB.URL = s.Path
	db, err := couchdb.Open(o.CouchDB)
	if err != nil {
		return nil, err
	}
	checked, err := restore.Check(ctx, config, restore.Target{Documents: restore.Database{DB: db}})
	if err != nil {
		return nil, err
	}
	if after, err := position(); err != nil || after != before {
		return nil, errors.Join(err, sinks.ErrChanged)
	}
	return reportOf(checked, before, found)
}

// reportOf reports the differences between leaf revisions.
func reportOf(checked *restore.Checked, contentID string, found func(reconcile.Line) error) (*reconcile.Report, error) {
	report := &reconcile.Report{Remarks: []string{"leaf revisions are compared: key and revision"}}
	report.Position.ContentID, report.Digest.ContentID = contentID, contentID
	report.Changed = checked.Omitted
	if checked.Omitted > 0 {
		report.Remarks = append(report.Remarks, human.Plural(checked.Omitted, "further difference is", "further differences are")+" not listed, and counted as changed")
	}
	for _, d := range checked.Differences {
		line := reconcile.Line{Kind: reconcile.Changed, Key: d.Key}
		switch d.Kind {
		case "missing":
			line.Kind = reconcile.Missing
			report.Missing++
		case "extra":
			line.Kind = reconcile.Extra
			report.Extra++
		default:
			report.Changed++
		}
		if err := found(line); err != nil {
			return nil, err
		}
	}
	report.Equal = max(checked.Keys-report.Changed-report.Missing, 0)
	report.Rows = report.Equal + report.Changed + report.Extra
	return report, nil
}
