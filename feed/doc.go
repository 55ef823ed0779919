// Package feed is the model of the datareplication.io specification: entities
// and their headers, operations, HTTP dates, links and positions. It does no
// I/O.
//
// # Time
//
// In memory, times are UTC in whole milliseconds; see [Milliseconds]. On the wire they are HTTP
// dates, in whole seconds; see [FormatTime]. These rules apply:
//
//   - Times are always rounded down, never to the nearest: a written time is not
//     later than the original. This also holds for times before 1970.
//   - Rounding down preserves order: if a is not after b, then the rounded a is
//     not after the rounded b. A sequence that never decreases in memory never
//     decreases on the wire.
//   - Many entities share a second on the wire. A time alone is therefore never
//     an exact position; a Content-ID is. A reader that enters a feed at a time
//     rounds it down with [Truncate] and takes every entity of that second: it
//     may see some entities again, but misses none.
//   - A time read from the wire is compared only with another time from the wire
//     or with one rounded by [Truncate].
package feed
