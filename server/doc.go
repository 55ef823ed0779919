// Package server serves the feeds and snapshots of a store over HTTP, and accepts
// entities to publish.
//
// # Resources
//
//	GET|HEAD /feeds/{feed}                     the newest page: the entry point
//	GET|HEAD /feeds/{feed}/pages/{n}           page n
//	GET|HEAD /feeds/{feed}/at                  leads to the page of a time
//	GET|HEAD /feeds/{feed}/index/{n}           tile n of the page index, as JSON
//	POST     /feeds/{feed}                     publish
//	GET|HEAD /snapshots/{name}                 the newest index
//	GET|HEAD /snapshots/{name}/{id}            an index
//	GET|HEAD /snapshots/{name}/{id}/pages/{n}  a page of a snapshot
//	GET|HEAD /digests/{feed}                   the root of the newest state digest
//	GET|HEAD /digests/{feed}/{id}              a root
//	GET|HEAD /digests/{feed}/nodes/{hash}      a node or leaf of state digests
//	GET|HEAD /changes                          the names of feeds that have changed, as JSON
//	GET|HEAD /                                 the names of all feeds and snapshots, as JSON or HTML
//
// and, with Config.Operations:
//
//	GET|HEAD /healthz                          the process is alive
//	GET|HEAD /readyz                           the store responds; otherwise what is wrong, since when
//	GET|HEAD /metrics                          for Prometheus
//
// # Pages
//
// A page has Last-Modified (of its last entity), Link (self, prev, next and last, which is the entry point;
// absolute) and a strong ETag. The newest page also has the links "first", to the oldest page, and "timegate". The
// ETag changes with the body, with the content coding, and when the next link appears. A page with a next link never
// changes and is "immutable" to caches; the newest page is "no-cache". If read credentials are configured, or links
// begin with the request's Host because there is no PublicURL, pages are "private". Pages are sent with gzip or zstd
// according to Accept-Encoding. A page that will not grow is encoded once and kept in memory, within
// Config.MaxEncoded; other pages are encoded for each response. Without a coding they support Range (one range of
// bytes) and have Repr-Digest (RFC 9530), which is always the digest of the whole page.
//
// A page whose SHA-256 differs from that in its metadata is never sent to its end. A
// range cannot be verified alone: it is sent only if the whole page has been verified, for
// this request or within the last 10 minutes. Damage to the store within these 10 minutes can
// therefore reach clients in ranges, and in files that the kernel sends to a network connection.
//
// On a page of a feed, If-Modified-Since is answered with 304 only if it is later
// than the page's Last-Modified. RFC 9110, section 13.1.3, also allows 304 for an
// equal date; here that would hide changes: a page may grow more than once in a
// second, and gains its next link without a new Last-Modified. A 304 carries the
// Link header.
//
// "Prefer: wait=N" (RFC 7240) with an If-None-Match that matches the newest page delays the response until the page
// changes, is no longer the newest, or N seconds have passed. Preference-Applied has the number of seconds granted.
//
// A page is answered with 410 Gone at most a second after it has been pruned. The files of a store on disk are kept
// open for at most a second between requests for a page that never changes. If there is a snapshot with the same
// name as the feed, the response links to its newest index with rel="snapshot".
//
// # Times
//
// /feeds/{feed}/at is a timegate (RFC 7089): with Accept-Datetime it answers 302 with the last
// page that is older, or else the oldest, as Location. It takes 1 + log2(pages) reads of metadata, or in a remote
// store about 7 rounds of 8 concurrent reads; at most 8 requests search at the same time. A missing date is a 400,
// unlike in RFC 7089.
//
// # The page index
//
// /feeds/{feed}/index/{n} lists the pages 256 n + 1 to 256 (n + 1) that have a next page, with
// relative URLs: see package pageindex. A full tile is "immutable", others are "no-cache". Tiles are
// made from the metadata of the pages, which takes up to 256 requests to the store; full ones
// are kept in memory, up to 4 MiB. Every page links to its tile with rel="timemap".
//
// # Changes
//
// /changes lists the feeds that have changed since the token in the query "since", at most 1000, with a new token
// (see [ChangedFeeds]); without a token, all feeds. "prefix" selects names, "limit" lowers the maximum. With
// "Prefer: wait=N" the response is delayed until there is a change, or N seconds have passed. A token is valid as
// long as the process runs and clients request /changes at least every ten minutes; otherwise the response is 410.
// The feeds are polled as [feedstore.Reader.Changes] describes, however many clients there are.
//
// # Remote stores
//
// For readers that walk from page to page, up to 16 pages are fetched ahead, within
// Config.ReadAhead bytes for all readers together; for readers that crawl back with HEAD, the metadata of pages is
// fetched ahead. Concurrent requests for the same page share one request to the store. Polling the newest page takes
// one request as long as that page grows. Only requests that arrived before a poll began share the poll, so each
// request sees what was published before it. With Config.Cache, pages that have a next page are kept on disk.
// Servers share nothing but the store: any number of them can serve it.
//
// # Publishing
//
// The Content-Type of a POST determines its entities. In multipart/*, the entities are the parts of the body, with
// their headers. In application/x-ndjson, they are its lines, described by the query: key, op, op-field,
// content-type and content-id, as in [input.Options] (op-field, key and content-id are JSON Pointers). A line has at
// most [input.DefaultMaxLine] bytes; lines longer than [input.LengthyLine] are read one at a time across all
// requests. Any other body is one entity with the Content-* and Operation-Type fields of the request. A DELETE needs
// no Content-Type. The response is a JSON object (see [Receipt]) and means that the entities are durable. An entity
// whose Content-ID is already in the feed's recent pages is counted as a duplicate, so a publish can be repeated.
//
// A multipart or NDJSON body is published as it arrives. If an error interrupts it, the problem's members
// "published" and "duplicates" count the entities before the error. The problem for a page that was pruned has the
// members "snapshot", "oldestPage", "oldestTime" and "keepAgeSeconds", as far as they are known.
//
// # Problems
//
// Errors are application/problem+json (RFC 9457). Their type is
// "urn:feedctl:problem:" and one of these:
//
//	no-resource         404  there is nothing at this path
//	no-feed             404  the feed has no pages
//	no-listing          404  the server does not list its feeds
//	no-page             404  the feed, or snapshot, has no such page (yet)
//	no-snapshot         404  there is no such snapshot
//	no-digest           404  there is no such state digest
//	feed-deleted        404  the feed was deleted; 410 for its pages
//	changes-lost        410  changes since the token are not known; start over without it
//	page-pruned         410  the page was removed; start from the linked snapshot, if any
//	method              405  see Allow; 501 for a method that no resource has
//	not-acceptable      406  Accept or Accept-Encoding leaves nothing to send
//	unauthorized        401  credentials are missing or wrong
//	forbidden           403  the credentials do not allow this
//	cross-origin        403  a web page of another origin sent the request
//	host                421  Host is not this machine, on a loopback address without credentials
//	precondition        412  If-Match or If-Unmodified-Since does not hold
//	range               416  the range begins after the end
//	invalid-request     400  a name, a parameter, or the body's syntax is wrong
//	incomplete          400  the body ended early
//	timeout             408  the body arrived too slowly
//	too-large           413  the body or an entity exceeds the limit
//	media-type          415  the body has a Content-Encoding that is not understood
//	invalid-entity      422  an entity cannot be published
//	busy                503  too many publishes at once; see Retry-After
//	clock               503  the server's clock is wrong; nothing can be published
//	unknown-outcome     503  entities may or may not have been published: repeat with the same Content-IDs
//	shutting-down       503  the server is shutting down
//	full                507  the store is full
//	corrupt             500  the store is corrupt
//	store-away          503  the store does not exist, as when its disk is not mounted, or does not respond
//	internal            500  see the server's log
package server
