// Package file is a driver for [storage.Store] that keeps objects as files in a
// directory of a local file system. Several processes may use it concurrently.
// It requires Unix: on other systems, opening a store returns an error that matches
// [errors.ErrUnsupported].
//
// # Layout
//
// The following describes version 2 of the layout, for programs that read a store without this
// package.
//
//	version               "feedctl file store 2" and a line feed
//	objects/KEY@meta      the metadata of the object KEY
//	objects/KEY@ID        its body
//	locks/00 ... locks/ff empty files, for locking
//	tmp/                  files that are about to be linked or renamed
//
// A program must refuse a directory whose version it does not know. KEY is the unmodified key; each
// of its segments except the last is a directory. No key contains "@". Names are case-sensitive.
//
// ID consists of 26 random characters from A-Z and 2-7, and is never reused. A state of an object
// is encoded as two lines, each terminated by a line feed: a JSON object, and the CRC-32C
// (Castagnoli) of the first line without its line feed, as 8 lower-case hexadecimal digits. The
// members of the object are
//
//	version        string; different for each state that an object ever had
//	body           ID of the body file
//	size           length of the body in bytes; the body file may be longer
//	modified       RFC 3339 time of this state, by the clock of the file system
//	content_type   string, may be missing
//	cache_control  string, may be missing
//	data           base64 of opaque bytes, may be missing
//	seq            number of appends since the metadata file was created; missing: 0
//	tail           length of the end of the body that was synced together with this
//	               state, in bytes; missing: 0
//	tailCRC        CRC-32C of the tail, a number; missing: 0
//
// A metadata file whose size is a power of two, at least 8192, has two halves, its slots.
// Each slot holds a state, padded with line feeds. Any other metadata file holds one state and
// nothing else. Appends write to the slots in turn and never change the size of the file; for a
// state that does not fit into a slot, a new file is made.
//
// An object exists if its metadata file exists. The body is the first size bytes of the body file.
// Bytes beyond these are room for appends. Readers ignore bytes beyond the body, files in tmp, and
// body files that no metadata file names: all of these were left by killed writers or belong to
// active ones.
//
// # Reading
//
// Open the metadata file by its name and read it. If both slots hold the same version,
// this is the state of the object. Otherwise, open and read the metadata file again until two
// consecutive reads are equal. A state is valid if its checksum is correct and, if it has a tail,
// the tail in the body file has the checksum tailCRC. The valid state with the greater seq is then
// the state of the object. If no state is valid, the store is damaged.
//
// Then open the body file that the state names. If it does not exist, the object has been replaced
// or deleted: start over. If the metadata turns out to be unchanged, the store is damaged. No lock
// is needed, since the first size bytes of an open body file never change.
//
// This is linearizable, although one read may see the slots at different moments. The
// states in a slot only become newer. A state is written to one slot, then synced, and then
// written to the other slot before the next state is written. Hence, if a read finds state n
// in one slot and nothing newer in the other, state n was there at the end of the read or
// state n+1 appeared during the read. While a slot is being written, a read may find it damaged or
// with an older state, although other readers have already seen the new state; but then the next
// read differs.
//
// # Writing
//
// Every file is synced before anything refers to it, and the directory that refers to it is synced
// before the write is acknowledged. An append syncs the tail of the body and the slot at the same
// time, and is acknowledged when both are durable. A crash at any moment therefore leaves either
// the old state or the new one, and no recovery is needed:
//
//   - The slot that an append overwrites holds a copy of the state in the other slot, which
//     has been synced and is not changed before the append is durable. A slot that the crash
//     left half-written has a wrong checksum.
//   - If the crash left the slot but not all of the tail, the checksum of the tail is wrong.
//
// A tail of more than 1 MiB is synced before the slot is written, and readers do not check it.
//
// If the slots differ, the last append was interrupted, or its copy of the state was lost. The
// writer of the next append first writes the tail and the slot of the last append again, syncs them
// and the directory, copies the state to the other slot and syncs that. The tail and the slot are
// written again because the operating system may consider them durable after a failed fsync.
//
// These are the system calls that modify the store, for an object "a/key".
//
// Create takes no lock, because link fails if the name exists:
//
//	mkdirat objects/a                   each directory, if the next call finds none
//	openat objects/a/key@ID             create, exclusive
//	flock objects/a/key@ID              shared, as long as it is open: see Sweep
//	write objects/a/key@ID              the body
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
// Append:
//
//	flock locks/XX                      exclusive
//	pwrite64 objects/a/key@ID           the tail, at offset size
//	pwrite64 objects/a/key@ID           64 KiB of zeros, if the file ends there and the
//	                                    tail is not larger than half of that: room for
//	                                    the next appends
//	pwrite64 objects/a/key@meta         the state, in slot seq modulo 2
//	fdatasync objects/a/key@ID          these concurrently:
//	fdatasync objects/a/key@meta
//	fsync objects/a                     if seq is 1: the process that created the
//	                                    metadata file may not have synced its name yet
//	pwrite64 objects/a/key@meta         the state, in the other slot
//	flock locks/XX                      release
//
// If a body file is longer than size and this room together, it is truncated to size before the
// append. The last append to an object, such as the one that closes a page, makes no room, and
// truncates the file after the commit.
//
// If the metadata file has no slots, or the state does not fit into a slot, Append commits as
// Replace does, but keeps the body file.
//
// Replace:
//
//	flock locks/XX                      exclusive
//	openat objects/a/key@ID             create, exclusive, with a new ID
//	flock objects/a/key@ID              shared, as long as it is open
//	write objects/a/key@ID              the body
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
// A write that fails before the link, the rename or the write to a slot has no visible effect, and
// frees the space that it used. If the link, the rename or the write to a slot fails with an I/O
// error, or a later sync fails, the outcome is unknown; nothing is cleaned up, since the files may
// be in use.
//
// # Limits
//
// After a state has been renamed into place or written to a slot, it can be read before it is synced.
// If the machine loses power at that moment, the store reverts to the previous state, and a reader may
// have seen a state that was never acknowledged. A reader can call [Store.Sync] to prevent that.
//
// The file system must be local and follow POSIX for link, rename, fsync and flock,
// as ext4, XFS, Btrfs, ZFS and APFS do. Not all network file systems do so. The whole store must be
// on one file system.
//
// # Sweep
//
// [Store.Sweep] removes files that killed writers left behind, and room for appends, if the
// file is old enough and an exclusive lock on it is available. A writer locks each file that it
// creates and then checks that the file still has a name, so even a writer that is suspended for a
// week does not lose its file. For a body file, Sweep takes the lock of the key and checks that the
// metadata does not name the file.
//
// # Layout 1
//
// In version 1, metadata files held one state, without seq and tail. An append wrote the state to a
// file objects/KEY@spare and exchanged the names of the two files. Such a store is read as it is.
// The first write durably changes the version file, so that programs that know only version 1
// refuse the store. Spare files are removed by Sweep.
package file
