package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/feedctl/feedctl/storage"
)

// batchSize is the number of bytes of a body that are read at a time.
const batchSize = 32 * chunkSize

// errGone means that chunks of the body have been deleted.
var errGone = errors.New("the body was replaced or deleted while it was read")

// stat reads the row of an object.
func (t tables) stat(ctx context.Context, db database, key string) (storage.Info, error) {
	info := storage.Info{Key: key}
	err := db.QueryRow(ctx, t.sql.stat, mode, key).Scan((*string)(&info.Version),
		&info.Size, &info.Modified, &info.Meta.ContentType, &info.Meta.CacheControl, &info.Meta.Data)
	if errors.Is(err, pgx.ErrNoRows) {
		return storage.Info{}, storage.ErrNotFound
	}
	info.Modified = info.Modified.UTC()
	return info, err
}

// remove deletes an object if it has the given version, and reports whether it did.
func (t tables) remove(ctx context.Context, db database, key string, at storage.Version) (bool, error) {
	var body int64
	err := db.QueryRow(ctx, t.sql.remove, mode, key, string(at)).Scan(&body)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// opened holds the state of an object and the beginning of the requested range, read at the same
// moment.
type opened struct {
	info   storage.Info
	id     int64  // of the body
	at     int64  // offset of first
	end    int64  // of the range
	first  []byte // at least one byte, unless the range is empty
	buffer []byte
}

// open reads the row of an object and the first batch of its body in one statement, so a body that
// fits into one batch is consistent even if the object is replaced meanwhile.
func (t tables) open(ctx context.Context, db database, key string, offset, length int64) (opened, error) {
	end := int64(math.MaxInt64)
	if length >= 0 && length < end-offset {
		end = offset + length
	}
	// The chunk that contains the byte at offset may begin before that byte.
	o := opened{info: storage.Info{Key: key}, at: offset, end: end}
	rows, err := db.Query(ctx, t.sql.open, mode, key, offset, min(end, addNoOverflow(offset, batchSize)))
	if err != nil {
		return opened{}, err
	}
	defer rows.Close()
	found := false
	for rows.Next() {
		var contentType, cacheControl pgtype.Text
		var data []byte
		var position pgtype.Int8
		var bytes pgtype.DriverBytes
		if err := rows.Scan(&o.id, (*string)(&o.info.Version), &o.info.Size, &o.info.Modified,
			&contentType, &cacheControl, &data, &position, &bytes); err != nil {
			return opened{}, err
		}
		if !found {
			found = true
			o.info.Modified = o.info.Modified.UTC()
			o.info.Meta = storage.Meta{ContentType: contentType.String, CacheControl: cacheControl.String, Data: data}
			o.end = max(min(end, o.info.Size), min(offset, o.info.Size))
			o.at = min(offset, o.info.Size)
			o.buffer = make([]byte, 0, min(o.end-o.at, batchSize)+chunkSize)
			o.first = o.buffer
		}
		if position.Valid {
			if o.first, err = join(o.first, o.at, position.Int64, bytes); err != nil {
				return opened{}, err
			}
		}
	}
	if err := rows.Err(); err != nil {
		return opened{}, err
	}
	if !found {
		return opened{}, storage.ErrNotFound
	}
	if len(o.first) == 0 && o.at < o.end {
		return opened{}, fmt.Errorf("%w: the body has no chunk at byte %d of %d", storage.ErrLayout, o.at, o.info.Size)
	}
	return o, nil
}

func addNoOverflow(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// join appends to data, which begins at one offset, the bytes that follow it in a chunk, which
// begins at another. There must be no gap between data and the chunk.
func join(data []byte, at, position int64, chunk []byte) ([]byte, error) {
	next := at + int64(len(data))
	skip := next - position
	if skip < 0 || skip >= int64(len(chunk)) {
		return nil, errGone
	}
	return append(data, chunk[skip:]...), nil
}

// read reads into the buffer the chunks of a body that begin in [from, to). The first of them
// begins at from.
func (t tables) read(ctx context.Context, db database, id, from, to int64, buffer []byte) ([]byte, error) {
	rows, err := db.Query(ctx, t.sql.read, mode, id, from, to)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	data := buffer[:0]
	for rows.Next() {
		var position int64
		var bytes pgtype.DriverBytes
		if err := rows.Scan(&position, &bytes); err != nil {
			return nil, err
		}
		if data, err = join(data, from, position, bytes); err != nil {
			return nil, err
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if from+int64(len(data)) < to {
		return nil, errGone
	}
	return data, nil
}

// A fetch is the method [tables.read] for a particular database.
type fetch func(id, from, to int64, buffer []byte) ([]byte, error)

// object returns o as a [storage.Object], whose body fetches further batches on demand.
func (o opened) object(ctx context.Context, fetch fetch) *storage.Object {
	b := &body{ctx: ctx, key: o.info.Key, id: o.id, next: o.at + int64(len(o.first)), end: o.end, fetch: fetch, buffer: o.buffer}
	b.rest = o.first[:min(int64(len(o.first)), o.end-o.at)]
	return &storage.Object{Info: o.info, Body: b}
}

// A body reads the body of an object in batches. It holds no connection between batches.
type body struct {
	ctx    context.Context
	key    string
	id     int64
	next   int64 // offset of the next batch
	end    int64
	fetch  fetch
	buffer []byte
	rest   []byte // of the current batch
	err    error
}

// fill fetches a batch if rest is empty. It returns io.EOF at the end.
func (b *body) fill() error {
	if len(b.rest) > 0 || b.err != nil {
		return b.err
	}
	if b.next >= b.end {
		return io.EOF
	}
	if err := b.ctx.Err(); err != nil {
		return failed("read", b.key, err)
	}
	data, err := b.fetch(b.id, b.next, min(b.end, b.next+batchSize), b.buffer)
	if err != nil {
		b.err = failed("read", b.key, fmt.Errorf("at byte %d: %w", b.next, err))
		return b.err
	}
	b.rest = data[:min(int64(len(data)), b.end-b.next)]
	b.next += int64(len(data))
	return nil
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := b.fill(); err != nil {
		return 0, err
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// WriteTo implements [io.WriterTo]. It writes whole batches.
func (b *body) WriteTo(w io.Writer) (n int64, err error) {
	for {
		if err := b.fill(); err == io.EOF {
			return n, nil
		} else if err != nil {
			return n, err
		}
		written, err := w.Write(b.rest)
		b.rest = b.rest[written:]
		n += int64(written)
		if err != nil {
			return n, err
		}
	}
}

// Close implements [io.Closer].
func (b *body) Close() error {
	b.rest, b.buffer, b.err = nil, nil, fs.ErrClosed
	return nil
}
