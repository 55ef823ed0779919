// Package replica copies feeds and snapshots from store to store while they are in
// use: a migration from one kind of store to another, or a backup.
//
// A copy has the same pages as its source: the same bytes, Content-IDs, times and digests, and the same
// boundaries. Since the digest of a page covers the name of its feed, a copy has the same name. Pages appear
// in the copy in order and complete, and its newest page grows by appends like that of the source, so at any
// moment the copy is an earlier state of the source, which consumers and [chain.Reader] can read.
//
// While a page is being written, the next ones are read, within a memory limit. The quarantine
// of a bridge is copied as well, so that a bridge can continue on the copy; pages that a
// repair has moved aside are not part of the feed and are not copied. Of the state digests of
// a feed, the newest is copied.
//
// The only state is the copy itself. An interrupted copy continues where it ended, after a
// check that the target is the beginning of the source. If the target has other entities,
// or was published to, the error matches [ErrDiverged]. Publish to a copy only when its
// source is no longer published to.
//
// Every body is checked against the SHA-256 in its metadata before its last byte is
// written.
package replica
