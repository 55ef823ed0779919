package verify

// A Rule is the name of a rule for feeds or snapshots.
type Rule string

// The rules for the pages of feeds and snapshots.
const (
	// Reachable: for every URL that is linked or listed, the response is 200 with a complete body.
	Reachable Rule = "reachable"
	// MediaType: a page is multipart with a boundary, an index is
	// application/json, and neither has a content coding that was not asked for.
	MediaType Rule = "media-type"
	// PageHeader: a page has a Last-Modified header with an HTTP date.
	PageHeader Rule = "page-header"
	// PageFormat: a page is a multipart document (RFC 2046) with at least one part
	// and a closing delimiter.
	PageFormat Rule = "page-format"
	// EntityHeader: an entity has the headers Last-Modified and Content-Type and, in a feed,
	// Content-ID and Operation-Type, each well-formed and only once.
	EntityHeader Rule = "entity-header"
	// OperationType: the Operation-Type of an entity is PUT, PATCH or DELETE.
	OperationType Rule = "operation-type"
	// ContentLength: the Content-Length of an entity, if given, is the size of its body.
	ContentLength Rule = "content-length"
	// ReprDigest: the Repr-Digest of a page or an index, if given, is its digest (RFC 9530).
	ReprDigest Rule = "repr-digest"
	// Changed: a page has not changed since an earlier check, except for its links, and for
	// entities that were appended to the newest page.
	Changed Rule = "changed"
)

// The rules for feeds.
const (
	// LinkSyntax: the Link headers are well-formed (RFC 8288).
	LinkSyntax Rule = "link-syntax"
	// SelfLink: a page has a link to itself.
	SelfLink Rule = "self-link"
	// Symmetry: if a page links to another one by next or prev, that page links back by prev or
	// next.
	Symmetry Rule = "symmetry"
	// Loop: links in one direction never lead to a page twice.
	Loop Rule = "loop"
	// Timeline: if a page declares its digest, the next page names that digest; otherwise the two
	// pages belong to different timelines of the feed.
	Timeline Rule = "timeline"
	// Head: the responses to HEAD and GET have the same Link and Last-Modified.
	Head Rule = "head"
	// TimeOrder: the Last-Modified of entities never decreases, within a page
	// and across pages.
	TimeOrder Rule = "time-order"
	// PageTime: the Last-Modified of a page is that of its newest entity.
	PageTime Rule = "page-time"
	// DuplicateID: a Content-ID occurs once in the feed.
	DuplicateID Rule = "duplicate-id"
	// Caching: a page without a next link, which may still change, is not
	// declared immutable (RFC 8246).
	Caching Rule = "caching"
	// PageIndex: if the feed has a page index (package pageindex), the index lists each page that
	// has a next link, and what the index says about the pages is true.
	PageIndex Rule = "page-index"
)

// The rules for snapshots.
const (
	// IndexSchema: the index is valid according to the specification's JSON schema.
	IndexSchema Rule = "index-schema"
	// AbsoluteURL: the URLs in an index are absolute.
	AbsoluteURL Rule = "absolute-url"
	// CreatedAt: createdAt is not later than the feed position in the index.
	CreatedAt Rule = "created-at"
	// EntityCount: "entities" in the index, if given, is the number of entities in all pages.
	EntityCount Rule = "entity-count"
)

// The rules for feeds in a store.
const (
	// Chain: every page names the digest of the page before it, and all pages except the newest are
	// closed.
	Chain Rule = "chain"
	// BodyDigest: the SHA-256 in a page's metadata is that of its body.
	BodyDigest Rule = "body-digest"
	// Metadata: a page's metadata agrees with its entities and has no unknown members, and the
	// Content-Type of the object is that of the page.
	Metadata Rule = "metadata"
	// Gap: no page is missing between the floor and the newest page.
	Gap Rule = "gap"
	// StrayObject: there are no other objects among a feed's pages.
	StrayObject Rule = "stray-object"
)

// Remedy returns what to do about a violation of the rule.
func (r Rule) Remedy() string {
	switch r {
	case Reachable:
		return "make the server answer 200 for this URL, and run again"
	case MediaType:
		return `serve pages as multipart/mixed; boundary="..." and indexes as application/json, with a requested content coding`
	case PageHeader:
		return "add Last-Modified to the page, as an HTTP date"
	case PageFormat:
		return "write the page as specified in RFC 2046, section 5.1, up to the closing delimiter; do not serve incomplete pages"
	case EntityHeader:
		return "make the producer write the header, once, in the form of the specification"
	case OperationType:
		return "write http-equiv=PUT, http-equiv=PATCH or http-equiv=DELETE"
	case ContentLength:
		return "write the number of bytes of the body, or no Content-Length"
	case ReprDigest:
		return "find out what changes pages in between (proxy, cache, disk); the digest must be that of the bytes served"
	case Changed:
		return "restore the page from a copy; consumers that have read it will not read it again"
	case LinkSyntax:
		return `write each link as <URL>; rel="self", and each relation once`
	case SelfLink:
		return "link each page to its own permanent URL with rel=self"
	case Symmetry:
		return "correct the links so that the next and prev of adjacent pages name each other"
	case Loop:
		return "correct the links so that the oldest page has no prev and the newest no next"
	case Timeline:
		return "the store was restored to an older state: restart every server, purge every cache in front of them, and run again"
	case Head:
		return "answer HEAD with the headers of GET; check for a cache that holds an old response"
	case TimeOrder:
		return "check the producer's clock; if it is slow, a new entity must have the time of the previous one"
	case PageTime:
		return "give the page the Last-Modified of its last entity"
	case DuplicateID:
		return "make sure that Content-IDs identify events, not their keys, and that retries do not publish twice"
	case Caching:
		return "send Cache-Control: immutable only with a page that has a next link; purge caches that hold the page"
	case IndexSchema:
		return "write the index according to the specification's JSON schema"
	case AbsoluteURL:
		return "write URLs with scheme and host into the index"
	case CreatedAt:
		return "round createdAt down to a whole second that is not later than the feed position"
	case EntityCount:
		return "create the snapshot again"
	case Gap:
		return "stop the producers and restore the missing pages from a backup, or use \"feedctl repair\""
	case Chain, BodyDigest, Metadata:
		return "stop the producers and restore the object from a copy; it was not written by feedctl or has been damaged since"
	case StrayObject:
		return "find out where it came from, and delete it"
	}
	return ""
}
