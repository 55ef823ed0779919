// Package consumer reads feeds and snapshots over HTTP after the
// datareplication.io specification: a URL in, entities out, in order.
//
// [Client.Entities] and [Client.Pages] are iterators over a feed, from a
// [Start] on, and [Client.Snapshot] over a snapshot. A [Job] does the whole
// work of consuming a feed into a [Sink] that keeps data and position together,
// so that each entity takes effect exactly once, whatever crashes. Whoever
// writes a sink finds the contract at [Sink] and [Batch].
//
// # Finding the start
//
// With a position, the page that it was on is tried first. If it is gone, or
// does not have the entity, the feed is searched back from its entry point by
// HEAD requests, up to a page that is strictly older than the position or the
// oldest there is, and then read forward: what is older is skipped, and then
// all up to the Content-ID. If it is not there, something may have been lost,
// which is a [*ContentIDNotFoundError], or a [*NotOldEnoughError] if the oldest
// entity is newer than the position; see [IsGap]. That nothing is newer is no
// error.
//
// # What is checked
//
// Every page must have Last-Modified, a self link, and neighbours that name
// each other (only a prev link may be missing, since old pages may be
// removed); the pages must not form a loop; Last-Modified must never decrease;
// every page must end with its closing delimiter. A page that has been read
// may only have grown when it is read again. Errors name the URL, and the part
// and the offset if it is about one; see [PageError].
//
// # What is repeated
//
// Requests that fail in a way that may pass ([Retryable]) are repeated as
// [RetryConfig] says. A page that breaks in the middle is requested again as a
// whole; what was given out of it is recognized and skipped.
//
// # Limits
//
// Memory is bounded by [Config], not by the size of a page or an entity: by
// ReadAhead for each page in flight, and by MaxWhole. Bodies larger than that
// are streams. A compressed page may need 8 MiB for its window (RFC 9659).
//
// Credentials and further headers are sent only to the origin (RFC 6454) of the
// URL that the caller gave.
package consumer
