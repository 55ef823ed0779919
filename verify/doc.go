// Package verify checks a feed or a snapshot from outside, as a consumer sees it, and reports all violations of the
// datareplication.io specification in one pass. [Store] also checks what is visible only in the store: the hash chain
// and the metadata of pages.
//
// The package is independent of package consumer and shares no code with it: it finds, orders and compares pages in
// its own way.
//
// # How a feed is read
//
// A check follows prev links back from the entry point with HEAD (with GET if
// the server does not support HEAD), then reads every page forward with GET. The feed may grow and be pruned during a
// check: pages that appear at its end are read, too, and it is not a violation if pages vanish at its beginning.
// Requests are not retried; a request that fails is a violation of [Reachable].
//
// # Memory
//
// Bodies are streamed, so an entity of any size takes constant memory. A page takes 8 to 22 bytes of memory, to detect
// loops; its URL is written to a temporary file. An entity takes no memory: 32 bytes are written to another temporary
// file, to find duplicate Content-IDs in a feed of any length; sorting these takes 4 MiB. A [State] adds about 250
// bytes and a URL for each page. At most [Config.MaxViolations] violations are listed; the others are only counted.
//
// # The report as JSON
//
// A [Report] marshals to an object with these members, which will not change:
//
//	url         what was checked: an entry point, an index, or "store:" and a feed
//	kind        "feed", "snapshot" or "store"
//	pages       number of pages that were read
//	entities    number of entities in them
//	bytes       size of the pages as received
//	first,last  Last-Modified of the oldest and newest entity (RFC 3339); absent if there is none
//	violations  list, empty if there are none, in the order of pages, parts and offsets
//	omitted     number of violations beyond those listed; absent if 0
//
// and each violation is an object with
//
//	rule     its name, such as "time-order": see the constants of type Rule
//	url      of the page or index; in a store, the store's name and a path, or only a
//	         path; for rules about stored objects, the object's key
//	page     number of the page among those checked, from 1 for the oldest; 0 if the violation is not about one of them
//	part     number of the entity in the page, from 0; -1 if the violation is not about one
//	offset   of that entity in the page or, with page-format, of the error, in bytes; -1 if there is none
//	message  what is wrong
//	remedy   what to do
package verify
