// Package s3 is a driver for [storage.Store] that keeps objects in a bucket of an
// S3 server. Any number of processes on any machines may use it concurrently.
//
// # Objects
//
// The following describes version 1 of the format, for programs that read a store without this
// package. The S3 object for KEY is PREFIX/KEY, or KEY if there is no prefix. It consists of the
// body and, unless it is plain, a trailer. Its Content-Type and Cache-Control are those of
// [storage.Meta], for clients that read objects over plain HTTP.
//
// The user metadata "feedctl" (x-amz-meta-feedctl) is the record: seven fields
// separated by ".".
//
//	1                format of the record
//	ID               26 characters of A-Z and 2-7: identifies the write
//	SHA256           of the body
//	SIZE             of the body, decimal
//	TRAILER          length of the trailer, decimal; 0 if the object is plain
//	PAYLOAD          the metadata; empty if it is in the trailer
//	CHECKSUM         CRC-32C of everything before the last ".", 8 hexadecimal digits
//
// SHA256 and PAYLOAD are in base64url without padding (RFC 4648, section 5). A record of any format
// begins with the number of the format and ends with this checksum. A program must refuse a format
// that it does not know.
//
// The payload is the length of Content-Type as a varint (as in Protocol Buffers),
// Content-Type, the length of Cache-Control, Cache-Control, and [storage.Meta].Data.
// It is in the record if it has at most 1300 bytes, so that the metadata stays below
// S3's limit of 2 KB.
//
// The trailer is one of these lines, preceded and followed by a carriage return and
// a line feed:
//
//	feedctl ID
//	feedctl ID CHECKSUM PAYLOAD
//
// The first form, with these line ends, has 38 bytes. The checksum is that of the payload in
// base64url. To a reader of a multipart page the trailer is an epilogue, which is ignored (RFC
// 2046, section 5.1.1).
//
// An object is plain if it was created with "immutable" in Cache-Control and its
// payload fits into the record. Plain objects, which are the ones read most over plain HTTP,
// consist only of their body.
//
// Objects below PREFIX/!feedctl/ are the driver's own; no key contains "!".
//
// # Rationale
//
// The record is a single value because a server may read the parts of an object one after another
// while the object is being overwritten, so two values might belong to different states. The record
// repeats the headers for the same reason, and because servers and proxies change headers.
//
// The ETag is used only in the conditions of writes. It is usually the MD5 of the object, though
// not always (multipart uploads, encryption). If it is the MD5, two states with the same bytes have
// the same ETag: if an object changed from A to B and back to A, a writer that read the first A
// would overwrite the second. The trailer therefore contains the ID of the write. Replacements and
// appends never write a plain object, and before a plain object is replaced, its ID is checked.
//
// # Writing
//
// A write is one PutObject, with If-None-Match: * for a Create, or with If-Match and the ETag of
// the given version for an Append or Replace. Above [Config.PartSize] it is a multipart upload,
// with the condition on CompleteMultipartUpload. The SHA-256 of the payload is part of the
// signature, so the server rejects damaged requests. An append sends the whole object. The existing
// body is in memory if this process wrote it recently; otherwise it is read and verified first. A
// body too large for memory is read as it is sent in a multipart upload, however small the tail is:
// some servers lock an object during a PutObject, so reading it would block for ever.
//
// If there is no response, or the response is a 409 or a server error, the outcome of the write is
// unknown, unless part of the body was never sent. A later 412 may be due to the earlier attempt,
// so the object is then read. If the object has the ID of the write, the write has succeeded. If
// the object is unchanged, the write is sent again with the same ID. If another writer has changed
// it after an attempt with an unknown outcome, the error matches no error of package storage: the
// outcome remains unknown.
//
// # Reading
//
// All reads use GetObject and never HeadObject, which some servers answer with a mixture of two
// states. An object that is read whole is compared with its digest and with the ID in its trailer,
// and read again if it differs. An ETag that is older than the rest of a response does no harm,
// since a write that uses it fails.
//
// # Servers
//
// Not every S3 server honours conditions on writes, and a server that ignores them loses data
// silently. The first write below a prefix therefore tests the server; see [Store.Probe]. A
// successful test is recorded in PREFIX/!feedctl/probe. Readers do not need the record.
//
// Versioning, replication and lifecycle rules of the bucket may be enabled; they are
// invisible to the driver. Rules must not delete or move objects that are in use.
package s3
