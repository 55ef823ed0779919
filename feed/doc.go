// Package feed is the model of the datareplication.io specification: entities
// and their headers, operations, HTTP dates, links and positions. It does no
// I/O.
//
// # Time
//
// Inside, times are UTC and have whole milliseconds: [Milliseconds]. On the
// wire they are HTTP dates and have whole seconds: [FormatTime]. The rules:
//
//   - Every loss of precision rounds down, never to the nearest: a time that
//     was written is not later than the time that was meant. This also holds
//     for times before 1970.
//   - Rounding down keeps order: if a is not after b, then the rounded a is not
//     after the rounded b. A sequence that never decreases inside never
//     decreases on the wire.
//   - Many entities share a second on the wire. A time alone is therefore never
//     an exact position; a Content-ID is. Whoever enters a feed by a time
//     rounds it down with [Truncate] and takes every entity of that second, and
//     may see some of them again, but misses none.
//   - What was read from the wire is compared in whole seconds with what was
//     read from the wire, or with a time that [Truncate] has rounded.
package feed
