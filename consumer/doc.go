// Package consumer reads the entities of feeds and snapshots over HTTP, in order,
// according to the datareplication.io specification.
//
// [Client.Entities] and [Client.Pages] iterate over a feed, from a [Start] on, and
// [Client.Snapshot] over a snapshot. A [Job] consumes a feed into a [Sink] that
// keeps data and position together, so that each entity takes effect exactly once
// even after a crash. [Sink] and [Batch] document the contract for sinks.
//
// # Finding the start
//
// With a position, the client tries the page of the position first. If the page is gone, or
// does not have the entity, the client searches for a page that is strictly older than the
// position, or else the oldest page. It uses the links "first" and "timegate" if the server has
// them (see [feed.Links]), and otherwise HEAD requests, going back from the entry point. From the
// page that it found, it walks forward and skips all entities up to the Content-ID. If the
// Content-ID is not in the feed, entities may have been missed: the error is a
// [*ContentIDNotFoundError], or a [*NotOldEnoughError] if the oldest entity is newer than the
// position; see [IsGap]. It is not an error if no entity is newer than the position.
//
// # Checks
//
// Every page must have Last-Modified and a self link; neighbouring pages must link to each other
// (only a prev link may be missing, since old pages may be removed); the pages must not form a
// loop; Last-Modified must never decrease; every page must end with its closing delimiter. When a
// page is read again, it may only have grown. Errors name the URL and, if they concern a part, the
// part and its offset; see [PageError].
//
// # Retries
//
// Requests that fail with a [Retryable] error are repeated according to
// [RetryConfig]. A page whose transfer fails is requested again as a whole; the
// entities already yielded are skipped.
//
// # Limits
//
// Memory is bounded by [Config], not by the size of a page or an entity: by
// ReadAhead for each page in flight, and by MaxWhole. Bodies larger than that
// are streams. A compressed page may need 8 MiB for its window (RFC 9659).
//
// Credentials and configured headers are sent only to the origin (RFC 6454) of the
// URL passed by the caller.
package consumer
