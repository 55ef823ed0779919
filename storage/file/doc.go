// Package file is a driver for [storage.Store] that keeps objects as files in a
// directory of a local file system. Several processes may use it concurrently.
// It requires Unix: on other systems, opening a store returns an error that matches
// [errors.ErrUnsupported].
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
// unmodified key; each segment but the last is a directory. No key contains "@".
// Names are case-sensitive.
//
// ID is 26 random characters of A-Z and 2-7, and never reused. The metadata file
// has two lines, each terminated by a line feed: a JSON object, and the CRC-32C
// (Castagnoli) of the first line without its line feed, as 8 lower-case hexadecimal
// digits. The members of the object are
//
//	version        string; different for each state that an object ever had
//	body           ID of the body file
//	size           length of the body in bytes; the body file may be longer
//	modified       RFC 3339 time of this state, by the clock of the file system
//	content_type   string, may be missing
//	cache_control  string, may be missing
//	data           base64 of opaque bytes, may be missing
//
// An object exists if its metadata file does. Its body is the first size bytes
// of the body file. Bytes beyond that, files in tmp, and body files that no
// metadata file names were left by killed writers or belong to active ones.
// Readers ignore them, and spare files.
//
// # Reading
//
// Read the metadata file by its name until two consecutive reads return the same
// version: an append may have exchanged the file that was opened, and the next
// append overwritten it. If the checksum is wrong, start over; if it is wrong
// repeatedly, the store is damaged. Open the body file that the metadata names. If
// it does not exist, the object has been replaced or deleted: start over. If the
// metadata is then unchanged, the store is damaged. No lock is needed. The first
// size bytes of an open body file never change.
//
// # Writing
//
// Every file is synced before anything refers to it, and the directory that
// refers to it before the write is acknowledged. A crash at any moment therefore
// leaves either the old state or the new one, and no recovery is needed. These are
// the system calls that modify the store, for an object "a/key".
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
//	fsync objects/a/key@ID              these concurrently:
//	fsync objects                       each directory above that of the object: any
//	                                    process may have just created it
//	fsync tmp/meta@ID
//	linkat tmp/meta@ID objects/a/key@meta
//	unlinkat tmp/meta@ID
//	fsync objects/a
//
// Append, after truncating the body file to size if it is longer:
//
//	flock locks/XX                      exclusive
//	pwrite64 objects/a/key@ID           the tail, at offset size
//	fsync objects/a                     if another process wrote the previous state:
//	                                    on disk, the spare file may still have the
//	                                    name of the metadata file
//	openat objects/a/key@spare          create, exclusive, if there is none
//	pwrite64 objects/a/key@spare        the metadata
//	ftruncate objects/a/key@spare       to its length
//	fsync objects/a/key@ID              both concurrently
//	fsync objects/a/key@spare
//	renameat2 objects/a/key@spare objects/a/key@meta
//	                                    exchange
//	fsync objects/a
//	flock locks/XX                      release
//
// On a file system that cannot exchange names, Append commits as Replace does.
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
//	fsync objects/a/key@ID              both concurrently
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
// A call that fails before the link or rename has no visible effect, and frees the
// space it used. If the link or rename fails with an I/O error, or the sync of the
// directory fails, the outcome is unknown; nothing is cleaned up, since the files may
// be in use.
//
// # Limits
//
// A state can be read between its rename and the sync of the directory. If the
// machine loses power at that moment, the store reverts to the previous state, and a
// reader has seen one that was never acknowledged.
//
// The file system must be local and follow POSIX for link, rename, fsync and flock,
// as ext4, XFS, Btrfs, ZFS and APFS do. Not all network file systems do. The whole
// store must be on one file system.
//
// # Sweep
//
// [Store.Sweep] removes files that killed writers left behind, if they are old enough
// and an exclusive lock on the file is available. A writer locks each file that it
// creates and then checks that the file still has a name, so that a writer that was
// suspended for a week does not lose its file. For a body file, Sweep takes the lock
// of the key and checks that the metadata does not name the file.
package file
