// Package replica copies feeds and snapshots from store to store while they are in
// use: a migration from one kind of store to another, or a backup.
//
// A copy has the same pages as its source: the same bytes, Content-IDs, times and
// digests, and the same boundaries. As the digest of a page names its feed, a copy
// keeps the name. Pages appear in the copy in their order, each whole, and its newest
// page grows by appends as that of the source does, so at any moment the copy is an
// earlier state of the source, that consumers can read and [chain.Reader] accepts.
//
// The next pages are read while one is written, within a limit of memory. The quarantine of
// a bridge is copied as well, so that a bridge can continue on the copy; pages that a repair
// has moved aside are not part of the feed and are not copied.
//
// There is no state beside the copy itself. One that was interrupted continues where
// it ended, after it has checked that what is there is the beginning of the source. A
// target that has other entities is refused with [ErrDiverged], and so is one that was
// published to. Publish to a copy only when its source is no longer published to.
//
// Every body is checked against the SHA-256 in its metadata before its last byte is
// written.
package replica
