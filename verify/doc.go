// Package verify checks a feed or a snapshot from outside, as a consumer sees
// it, and reports all violations of the datareplication.io specification in one
// pass. [Store] also checks what only the store knows: the hash chain and the
// metadata of pages.
//
// It is an oracle, and so shares no code with package consumer: it finds pages,
// orders them and compares them by itself.
//
// # How a feed is read
//
// From the entry point back by prev with HEAD (GET where HEAD is not answered),
// then forward over every page with GET. A feed may grow and be pruned
// meanwhile: pages that appear at its end are read too, and pages that vanish
// at its beginning are no violation. Nothing is asked twice to see whether it
// works then; a request that comes to nothing is a violation of [Reachable].
//
// # Memory
//
// Bodies stream, so that an entity of any size takes constant memory. For each
// page 8 to 22 bytes are kept, for finding loops; its URL goes to a temporary file.
// For each entity nothing is kept in memory: 32 bytes go to another temporary file,
// which is how a Content-ID that occurs twice is found in a feed of any length;
// sorting takes 4 MiB. A [State] takes some 250 bytes and a URL for each page more.
// Violations are listed up to [Config.MaxViolations], and counted
// beyond.
//
// # The report as JSON
//
// A [Report] marshals to an object with these members, which stay as they are:
//
//	url         what was checked: an entry point, an index, or "store:" and a feed
//	kind        "feed", "snapshot" or "store"
//	pages       number of pages that were read
//	entities    number of entities in them
//	bytes       size of the pages as they came
//	first,last  Last-Modified of the oldest and newest entity (RFC 3339); absent if there is none
//	violations  list, empty if there are none, in the order of pages, parts and offsets
//	omitted     number of violations beyond those listed; absent if 0
//
// and each violation is an object with
//
//	rule     its name, such as "time-order": see the constants of type Rule
//	url      of the page or index, in a store with the name of that, or a path; for
//	         what only the store knows, the object's key
//	page     number of the page among those checked, from 1 for the oldest; 0 if it is about none of them
//	part     number of the entity in the page, from 0; -1 if it is about none
//	offset   of that entity in the page, in bytes, or with page-format of the place; -1 if it is about none
//	message  what is wrong
//	remedy   what to do
package verify
