// Package file is a driver for [storage.Store] that keeps objects as files in a
// directory of a local file system. Several processes may use it at a time.
// It needs Unix: elsewhere, opening a store is an error that matches [errors.ErrUnsupported].
//
// # Layout
//
// This is version 1 of the layout, for programs that read a store without this
// package.
//
//	version               "feedctl file store 1" and a line feed
//	objects/KEY@meta      the current state of the object KEY
//	objects/KEY@ID        its body
//	objects/KEY@spare     room for its next state, may be missing
//	locks/00 ... locks/ff empty files, for locking
//	tmp/                  files that are about to be linked or renamed
//
// A program must refuse a directory whose version it does not know. KEY is the
// key as it is; each segment but the last is a directory. "@" is in no key.
// Names are case-sensitive.
//
// ID is 26 characters of A-Z and 2-7, random, and never used again. The
// metadata file has two lines, each with a line feed at its end: a JSON object,
// and the CRC-32C (Castagnoli) of the bytes of the first line without its line
// feed, as 8 digits of lower-case hexadecimal. The members of the object are
//
//	version        string; different for each state that an object ever had
//	body           ID of the body file
//	size           length of the body in bytes; the body file may be longer
//	modified       RFC 3339 time of this state, by the clock of the file system
//	content_type   string, may be missing
//	cache_control  string, may be missing
//	data           base64 of bytes that are opaque here, may be missing
//
// An object exists if its metadata file does. Its body is the first size bytes
// of the body file. What lies beyond, files in tmp, and body files that no
// metadata file names are left from writers that died, or belong to one that
// is at work. They, and spare files, mean nothing.
//
// # Reading
//
// Read the metadata file twice, each time by its name, until both have the same
// version: an append may have put another file in the place of the one that was
// opened, and the next one have written over it. If the checksum is wrong, begin
// again; if it is so again and again, the store is damaged. Open the body file it
// names. If that does not exist, the object has been replaced or deleted since:
// begin again. If the metadata has not changed then, the store is damaged. No lock
// is needed. An open body file keeps its first size bytes, whatever is written
// later.
//
// # Writing
//
// Every file is synced before anything refers to it, and the directory that
// refers to it before the write is acknowledged. So a crash at any moment leaves
// the old state or the new one, each whole, and there is no recovery. These are
// the system calls that change something, for an object "a/key".
//
// Create takes no lock, because link fails if the name exists:
//
//	mkdirat objects/a                   each directory, if the next call finds none
//	openat objects/a/key@ID             create, exclusive
//	flock objects/a/key@ID              shared, as long as it is open: see Sweep
//	pwrite64 objects/a/key@ID           the body
//	openat tmp/meta@ID                  create, exclusive
//	flock tmp/meta@ID                   shared, as long as it is open
//	write tmp/meta@ID                   the metadata
//	fsync objects/a/key@ID              these at the same time:
//	fsync objects                       each directory above that of the object: it
//	                                    may have been made just now, by anyone
//	fsync tmp/meta@ID
//	linkat tmp/meta@ID objects/a/key@meta
//	unlinkat tmp/meta@ID
//	fsync objects/a
//
// Append, after cutting the body file to size if it is longer:
//
//	flock locks/XX                      exclusive
//	pwrite64 objects/a/key@ID           the tail, at offset size
//	fsync objects/a                     if another process wrote the state before:
//	                                    the disk may have the spare file under the
//	                                    name of the metadata file
//	openat objects/a/key@spare          create, exclusive, if there is none
//	pwrite64 objects/a/key@spare        the metadata
//	ftruncate objects/a/key@spare       to its length
//	fsync objects/a/key@ID              both at the same time
//	fsync objects/a/key@spare
//	renameat2 objects/a/key@spare objects/a/key@meta
//	                                    exchange
//	fsync objects/a
//	flock locks/XX                      release
//
// On a file system that cannot exchange names it commits as Replace does.
//
// Replace:
//
//	flock locks/XX                      exclusive
//	openat objects/a/key@ID             create, exclusive, with a new ID
//	flock objects/a/key@ID              shared, as long as it is open
//	pwrite64 objects/a/key@ID           the body
//	openat tmp/meta@ID                  create, exclusive
//	flock tmp/meta@ID                   shared, as long as it is open
//	write tmp/meta@ID                   the metadata
//	fsync objects/a/key@ID              both at the same time
//	fsync tmp/meta@ID
//	renameat tmp/meta@ID objects/a/key@meta
//	fsync objects/a
//	unlinkat objects/a/key@ID           the old one
//	flock locks/XX                      release
//
// Delete:
//
//	flock locks/XX                      exclusive
//	unlinkat objects/a/key@meta
//	fsync objects/a
//	unlinkat objects/a/key@ID
//	unlinkat objects/a                  each directory above, if it is empty
//	flock locks/XX                      release
//
// XX is the FNV-1a hash of the key, 32 bits, modulo 256, in hexadecimal.
//
// # Errors
//
// A call that fails before the link or rename has changed nothing that can be
// seen, and the room that was taken is given back. A link or rename that fails
// with an I/O error, and a sync of the directory that fails, leave the outcome
// open; then nothing is cleaned up, since it may be in use.
//
// # Limits
//
// A state can be read between its rename and the sync of the directory. If the
// machine loses power just then, the state before it comes back, and a reader
// has seen one that was never acknowledged.
//
// File systems must be local and keep the rules of POSIX for link, rename, fsync
// and flock, as ext4, XFS, Btrfs, ZFS and APFS do. Network file systems do not
// all. All of the store must be on one file system.
//
// # Sweep
//
// What dead writers leave is removed by [Store.Sweep], if it is old enough and
// an exclusive lock on the file can be had. A writer locks what it creates, and
// then makes sure that the file still has a name. So a writer that was stopped
// for a week is not robbed of its file. For a body file, sweep then takes the
// lock of the key and looks whether the metadata names it.
package file
