// Package erase removes what a feed says about some keys. Since pages never change, it replaces them
// with copies from which this is missing.
//
// In the copies, each entity of an erased key is a DELETE of the key, with the same Content-ID and
// time and without a body. All other entities are unchanged, so every position of a consumer
// stays valid. Consumers that have already read an erased entity receive a DELETE at the end of the
// feed. How the copies take the place of the pages is described in [chain.Erasure].
//
// The whole feed is written again. Its readers continue meanwhile; its producers wait for a moment at
// the end. An interrupted erasure leaves the feed as it was, or erased with some former pages still in
// the store; to complete the erasure, repeat it.
//
// [Find] reads the feed and finds what is to be erased; [Plan.Run] erases it. Snapshots of the feed,
// caches, backups and the data of consumers are left to the caller.
package erase
