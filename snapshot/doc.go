// Package snapshot encodes and decodes the snapshot index of the datareplication.io
// specification (section "Snapshot Index Format"): a JSON document that lists
// the pages of a snapshot.
//
// An index that feedctl writes has two properties in addition to those of the specification:
//
//	{
//	  "id": "20231127T205217Z-1",
//	  "createdAt": "2023-11-27T20:52:17.000Z",
//	  "pages": ["https://example.com/snapshots/zones/20231127T205217Z-1/pages/0"],
//	  "feed": {
//	    "url": "https://example.com/feeds/zones",
//	    "page": "https://example.com/feeds/zones/pages/7",
//	    "lastModified": "2023-11-27T20:52:17.912Z",
//	    "contentId": "<c-4711>"
//	  },
//	  "entities": 597
//	}
//
// "feed" is the entity after which a reader continues in the feed, and "entities"
// the number of entities in all pages. A reader that knows only the specification
// enters the feed at createdAt. Therefore createdAt is rounded down to a whole second: times in a
// feed have whole seconds, so if createdAt had a fraction, an entity of the same second would seem
// older than the snapshot and be missed.
package snapshot
