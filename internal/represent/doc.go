// Package represent answers GET and HEAD requests with representations of resources (RFC 9110):
// preconditions, ranges, content codings, digests (RFC 9530) and what caches may keep. Only some header fields in it
// are specific to feeds.
//
// A representation that never changes is encoded once for all requests. The number of encoders and the
// memory for encoded representations are limited.
package represent
