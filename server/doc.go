// Package server serves the feeds and snapshots of a store over HTTP, and takes
// entities to publish.
//
// # Resources
//
//	GET|HEAD /feeds/{feed}                     the newest page: the entry point
//	GET|HEAD /feeds/{feed}/pages/{n}           page n
//	POST     /feeds/{feed}                     publish
//	GET|HEAD /snapshots/{name}                 the newest index
//	GET|HEAD /snapshots/{name}/{id}            an index
//	GET|HEAD /snapshots/{name}/{id}/pages/{n}  a page of a snapshot
//	GET|HEAD /                                 the names of all feeds and snapshots, as JSON or HTML
//	GET|HEAD /healthz                          the process is alive
//	GET|HEAD /readyz                           the store answers
//	GET|HEAD /metrics                          for Prometheus
//
// # Pages
//
// A page has Last-Modified (of its last entity), Link (self, prev, next; absolute)
// and a strong ETag. The ETag changes with the body, with the content coding, and
// when the next link appears. A page with a next link never changes and is
// "immutable" to caches; the newest page is "no-cache". If read credentials are
// configured, or links begin with the request's Host as there is no PublicURL,
// pages are "private". Pages come with gzip or zstd by
// Accept-Encoding, and otherwise with Range (one range of bytes) and Repr-Digest
// (RFC 9530), which of a range is that of the whole page.
//
// A page that does not have the SHA-256 of its metadata is never sent to its end. A range
// has no digest of its own: it is sent after the whole page was verified, at that moment or
// within the 10 minutes before. What changes in the store within these 10 minutes shows in
// ranges, and in files that are sent to a network connection by the kernel.
//
// If-Modified-Since is answered with 304 on a page of a feed only if it is later
// than the page's Last-Modified. RFC 9110, section 13.1.3, has it at an equal date
// too; here that would hide changes: a page may grow more than once in a second,
// and the copy from before its next link appeared has the same Last-Modified. Such
// a 304 carries the Link header.
//
// "Prefer: wait=N" (RFC 7240) with an If-None-Match that matches the newest page
// delays the answer until the page changes, or is no longer the newest, or N
// seconds have passed. Preference-Applied names the seconds that were granted.
//
// A page that has been pruned is 410 Gone. If there is a snapshot of the same
// name as the feed, the answer links to its newest index with rel="snapshot".
//
// # Stores behind a network
//
// For readers that go from page to page up to 16 pages are fetched ahead, within
// Config.ReadAhead bytes for all readers together; for those that crawl back with
// HEAD, metadata. Whoever asks for the same at the same time shares one request to the
// store. A look for the newest page takes one request as long as that page grows, and
// is shared by those only who asked before it began, so that everybody sees what was
// published before. With Config.Cache, pages that have a next page are kept on disk.
// Servers of one store share nothing but the store: any number of them, in any order,
// are as good as one.
//
// # Publishing
//
// What a POST carries depends on its Content-Type. The entities of multipart/*
// are its parts, with their headers. The entities of application/x-ndjson are its
// lines; the query says what they mean: key, op, op-field, content-type and
// content-id, as in [input.Options] (op-field, key and content-id are JSON
// Pointers). A line has at most [input.DefaultMaxLine] bytes; those beyond
// [input.LengthyLine] are read one at a time, whatever the number of requests. Any other body is one entity with the Content-* and Operation-Type
// fields of the request. The answer is a JSON object (see [Receipt]) and means that the
// entities are durable. An entity whose Content-ID is in the feed's recent pages
// already is counted as a duplicate, so a publish can be repeated.
//
// A multipart or NDJSON body is published as it arrives. If an error stops it in
// the middle, the problem has the members "published" and "duplicates" that count
// the entities before.
//
// # Problems
//
// Errors are application/problem+json (RFC 9457). Their type is
// "urn:feedctl:problem:" and one of these:
//
//	no-resource         404  there is nothing at this path
//	no-feed             404  the feed has no pages
//	no-page             404  the feed, or snapshot, has no such page (yet)
//	no-snapshot         404  there is no such snapshot
//	page-pruned         410  the page was removed; start from the linked snapshot, if any
//	method              405  see Allow; 501 for a method that no resource has
//	not-acceptable      406  Accept or Accept-Encoding leaves nothing to send
//	unauthorized        401  credentials are missing or wrong
//	forbidden           403  the credentials are not for this
//	cross-origin        403  a browser sent it for a web page of another origin
//	host                421  Host is not this machine's, on a loopback address without credentials
//	precondition        412  If-Match or If-Unmodified-Since does not hold
//	range               416  the range begins behind the end
//	invalid-request     400  a name, a parameter, or the body's syntax is wrong
//	incomplete          400  the body ended early
//	timeout             408  the body came too slowly
//	too-large           413  the body or an entity exceeds the limit
//	media-type          415  the body has a Content-Encoding that is not understood
//	invalid-entity      422  an entity cannot be published
//	busy                503  too many publishes at once; see Retry-After
//	clock               503  the server's clock is wrong; nothing can be published
//	unknown-outcome     503  entities may or may not be published: repeat with the same Content-IDs
//	shutting-down       503  the server is about to end
//	full                507  the store has no room left
//	corrupt             500  the store contradicts itself
//	store-away          503  the store is gone, as when its disk is not mounted, or does not answer
//	internal            500  see the server's log
package server
