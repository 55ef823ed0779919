// Package s3 is a driver for [storage.Store] that keeps objects in a bucket of an
// S3 server. Any number of processes on any machines may use it at a time.
//
// # Objects
//
// This is version 1 of the format, for programs that read a store without this
// package. The object of KEY is PREFIX/KEY, or KEY if there is no prefix. It
// consists of the body and, unless it is plain, a trailer. Content-Type and
// Cache-Control are those of [storage.Meta], for readers by plain HTTP.
//
// The user metadata "feedctl" (x-amz-meta-feedctl) is the record: seven fields
// with a "." in between.
//
//	1                format of the record
//	ID               26 characters of A-Z and 2-7: the write that made this state
//	SHA256           of the body
//	SIZE             of the body, decimal
//	TRAILER          length of the trailer, decimal; 0 if the object is plain
//	PAYLOAD          the metadata; empty if it is in the trailer
//	CHECKSUM         CRC-32C of all before and without the last ".", 8 digits of hexadecimal
//
// SHA256 and PAYLOAD are in base64url without padding (RFC 4648, section 5). Each
// format begins with its number and ends with this checksum. A program must refuse
// a format that it does not know.
//
// The payload is the length of Content-Type as a varint (as in Protocol Buffers),
// Content-Type, the same of Cache-Control, and all the rest is [storage.Meta].Data.
// It is in the record if it has at most 1300 bytes, so that the metadata stay below
// the 2 KB of S3.
//
// The trailer is one of these lines, with a carriage return and a line feed before
// it and after it:
//
//	feedctl ID
//	feedctl ID CHECKSUM PAYLOAD
//
// The first has 38 bytes in all. The checksum is that of the payload's base64url.
// For a page in multipart format it is an epilogue, which readers ignore (RFC 2046,
// section 5.1.1).
//
// An object is plain if it was created with "immutable" in Cache-Control and its
// payload fits into the record. These are what is read by plain HTTP most, and
// need be nothing but their bodies.
//
// Objects below PREFIX/!feedctl/ are the driver's own; no key has a "!".
//
// # Why it is so
//
// The record is one value, because a server may read the parts of an object one
// after another while it is overwritten: two values could be of two states. The
// headers are in it for the same reason, and since servers and proxies change
// them.
//
// The ETag says to S3 which state a write is to replace, and nothing else: it is
// not always the MD5 of the object (uploads in parts, encryption). But mostly it
// is, and then two states with the same bytes have the same ETag: if an object
// went from A to B and back to A, a writer that saw the first A would overwrite the
// second. So the bytes hold the id of the write. A plain object is never made by a
// replacement; whoever replaces one looks at its id just before.
//
// # Writing
//
// A write is one PutObject, with If-None-Match: * to create, or with If-Match and
// the ETag of the version to append or replace; above [Config.PartSize] it is an
// upload in parts, with the condition on CompleteMultipartUpload. The SHA-256 of what
// is sent is part of the signature, so the server refuses what arrives damaged. An
// append sends the whole object: the body so far is in memory, if this process
// has written it lately, or else is read and verified first. What is too large for
// memory is read while it is sent, in parts, however small it is: some servers
// lock an object while a PutObject to it is on its way, so that a read of it would
// wait for ever.
//
// If there is no answer, or a 409 or an error of the server, it is not known whether
// the write has taken effect, unless some of the body was never sent. After that a
// 412 may come from our own earlier attempt. The object is read again: if it has our
// id, the write has succeeded. If it is as it was, the write is sent again with the
// same id. If someone else has written, and one of our attempts may have come before,
// an error matches none of those of package storage: the outcome is unknown.
//
// # Reading
//
// All reads are GetObject; HeadObject is not used, see the comment on state. What is
// read whole is compared with its digest and with the id in its trailer, and read
// again if it differs. An ETag that is older than the rest does no harm, as the
// write that it is used for fails.
//
// # Servers
//
// Not every server that speaks S3 honours conditions on writes, and one that ignores
// them loses data without a word. So the first write below a prefix tries that out:
// see [Store.Probe]. The outcome is kept in PREFIX/!feedctl/probe. Who only reads
// does not need it.
//
// Versioning of the bucket, replication and lifecycle rules may be on; the driver
// does not see them. Rules must not delete or move objects that are in use.
package s3
