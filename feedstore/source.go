package feedstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/lru"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/pagecache"
	"github.com/feedctl/feedctl/storage"
)

// These constants limit how much is fetched ahead.
const (
	// maxAhead is how many pages are fetched ahead of a reader if there is memory for them. Pages are
	// returned in order, so if one of them takes longer, those after it arrive meanwhile.
	maxAhead = 24
	// maxStatAhead is the number of pages whose metadata is fetched ahead.
	maxStatAhead = 16
	// usualPage is the expected size of a page, in bytes, as long as no size is known.
	usualPage = 1 << 20
	// maxProven is how many pages in the cache one request to the store can prove.
	maxProven = 256
)

// A source gets pages from the cache on disk, from memory, or from the store. It fetches ahead the pages that
// readers will request next.
type source struct {
	log        *slog.Logger
	background *background
	cache      *pagecache.Cache // nil if there is none
	pages      *lru.Cache[pageKey, *chain.Page]
	buffers    *buffers
	files      openFiles
	small      *smallPages
	sequences  sequences
	metas      *calls[pageKey, *chain.Page]
	integrity  *integrity

	hits, misses, asked, fetchedAhead atomic.Uint64
}

func newSource(c Config, b *background, i *integrity) *source {
	return &source{
		log: c.Logger, background: b, cache: c.Cache,
		pages:     lru.New[pageKey, *chain.Page](maxPages),
		buffers:   newBuffers(c.ReadAhead),
		small:     newSmallPages(),
		sequences: sequences{byNext: make(map[sequenceKey]sequence)},
		metas:     newCalls[pageKey, *chain.Page](b),
		integrity: i,
	}
}

// remember keeps the metadata of a page that has a next page, unless it has been kept before. It returns the
// kept metadata or, if the object was replaced since, a copy of p.
func (s *source) remember(f *Feed, p *chain.Page) *chain.Page {
	kept := s.pages.Add(pageKey{f, p.Number}, lean(p), 1)
	if kept.Version != p.Version || kept.SHA256 != p.SHA256 {
		return lean(p)
	}
	return kept
}

// stat returns the metadata of a page that has a next page.
func (s *source) stat(ctx context.Context, f *Feed, n int64) (*chain.Page, error) {
	key := pageKey{f, n}
	if p, ok := s.pages.Get(key); ok {
		return p, nil
	}
	return s.metas.do(ctx, key, func(ctx context.Context) (*chain.Page, error) { return s.lookUp(ctx, f, n) })
}

// lookUp reads metadata from the cache or the store.
func (s *source) lookUp(ctx context.Context, f *Feed, n int64) (*chain.Page, error) {
	if s.prove(ctx, f, n) {
		if p, ok := s.pages.Get(pageKey{f, n}); ok {
			return p, nil
		}
	}
	p, err := f.reader.Stat(ctx, n)
	if err != nil {
		return nil, err
	}
	s.remember(f, p)
	return p, nil
}

// crawl fetches metadata ahead for a reader that crawls back from page n.
func (s *source) crawl(f *Feed, n, floor int64) {
	if s.buffers.limit > 0 && s.sequences.step(sequenceKey{pageKey{f, n}, true}) > 0 {
		s.statAhead(f, max(floor, n-maxStatAhead), n-1)
	}
}

// statAhead fetches the metadata of the pages from last back to first, all of which have a next page.
func (s *source) statAhead(f *Feed, first, last int64) {
	for k := last; k >= first && s.buffers.limit > 0; k-- {
		key := pageKey{f, k}
		if _, ok := s.pages.Get(key); !ok {
			s.metas.start(key, func(ctx context.Context) (*chain.Page, error) { return s.lookUp(ctx, f, k) })
		}
	}
}

// prove reports whether page n in the cache belongs to the feed. If so, it remembers the page's metadata.
// Since each page names the digest of the one before, a series of consecutive pages in the cache is proven by
// the page after them, if that is known, or by the metadata of the last of them in the store.
func (s *source) prove(ctx context.Context, f *Feed, n int64) bool {
	var row []*chain.Page
	proven := false
	for k := n; s.cache != nil && len(row) < maxProven && !proven; k++ {
		known, ok := s.pages.Get(pageKey{f, k})
		proven = ok
		if !ok {
			known, ok = s.cache.Meta(f.name, k)
		}
		if !ok || len(row) > 0 && known.Prev != row[len(row)-1].Digest() {
			proven = false
			break
		}
		row = append(row, known)
	}
	if len(row) == 0 {
		return false
	}
	if last := row[len(row)-1]; !proven {
		p, err := f.reader.Stat(ctx, last.Number)
		if err != nil || p.Digest() != last.Digest() {
			if err == nil {
				s.drop(row)
			}
			return false
		}
	}
	for _, p := range row {
		s.remember(f, p)
	}
	return true
}

// drop removes pages from the cache that belong to another chain.
func (s *source) drop(row []*chain.Page) {
	for _, p := range row {
		s.cache.Drop(p.Feed, p.Number)
	}
}

// open opens a part of the body of a page that has a next page. A negative length
// means to the end.
func (s *source) open(ctx context.Context, f *Feed, n, offset, length int64) (*chain.Page, io.ReadCloser, error) {
	whole := offset == 0 && length < 0
	if p, body, ok := s.openCached(ctx, f, n, offset, length); ok {
		if whole {
			s.ahead(f, n)
		}
		return p, body, nil
	}
	b := s.buffer(f, bufferKey{pageKey: pageKey{f, n}})
	if whole {
		s.ahead(f, n)
	}
	if b != nil {
		p, body, err := s.openBuffer(ctx, b, offset, length)
		if !errors.Is(err, errUnbuffered) {
			return p, body, err
		}
	}
	return s.openStored(ctx, f, n, offset, length)
}

// openCached opens a page in the cache.
func (s *source) openCached(ctx context.Context, f *Feed, n, offset, length int64) (*chain.Page, io.ReadCloser, bool) {
	if s.cache == nil {
		return nil, nil, false
	}
	if s.cache.Has(f.name, n) {
		if p, err := s.stat(ctx, f, n); err == nil {
			if body, ok := s.cache.Open(p, offset, length); ok {
				s.hits.Add(1)
				return p, body, true
			}
		}
	}
	s.misses.Add(1)
	return nil, nil, false
}

// buffer returns the buffer of a page that has a next page, or nil if the page is too large.
// If the page has no buffer yet, it starts reading the whole page, even if only a part is needed, since only
// a whole page can be verified.
func (s *source) buffer(f *Feed, key bufferKey) *buffer {
	size := f.usualSize()
	if p, ok := s.pages.Get(key.pageKey); ok {
		size = p.Size
	}
	b, begun := s.buffers.acquire(key, size)
	if begun {
		s.asked.Add(1)
		s.fetch(f, b)
	}
	return b
}

// ahead fetches the next pages for a reader that has come to page n from the page before. Readers share the
// memory: the more there are, the less is fetched ahead for each.
func (s *source) ahead(f *Feed, n int64) {
	if s.buffers.limit == 0 {
		return
	}
	readers := s.sequences.step(sequenceKey{pageKey{f, n}, false})
	if readers == 0 {
		return
	}
	size := f.usualSize()
	window := min(s.buffers.limit/rounded(size)/int64(readers), maxAhead)
	for k := n + 1; k <= n+window && k < f.newest.Load(); k++ {
		if s.cache != nil && s.cache.Has(f.name, k) {
			continue
		}
		b, full := s.buffers.begin(bufferKey{pageKey: pageKey{f, k}}, size)
		if full {
			return
		}
		if b != nil {
			s.fetchedAhead.Add(1)
			s.fetch(f, b)
		}
	}
}

// openState opens the whole body of a page that had no next page when it was seen, in that state or a later
// one.
func (s *source) openState(ctx context.Context, f *Feed, seen *chain.Page) (*buffer, error) {
	b, begun := s.buffers.acquire(bufferKey{pageKey{f, seen.Number}, seen.SHA256}, seen.Size)
	if b == nil {
		return nil, errUnbuffered
	}
	if begun {
		s.asked.Add(1)
		s.fetch(f, b)
	}
	return b, s.await(ctx, b)
}

// await waits for a page, and releases the buffer if it cannot be read.
func (s *source) await(ctx context.Context, b *buffer) error {
	var err error
	select {
	case <-b.ready:
		err = b.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		s.buffers.release(b)
	}
	return err
}

func (s *source) openBuffer(ctx context.Context, b *buffer, offset, length int64) (*chain.Page, io.ReadCloser, error) {
	if err := s.await(ctx, b); err != nil {
		return nil, nil, err
	}
	return b.page, s.reader(b, offset, length), nil
}

// reader returns a reader of a part of a buffer. Closing the reader releases the buffer.
func (s *source) reader(b *buffer, offset, length int64) io.ReadCloser {
	part := b.body[min(offset, int64(len(b.body))):]
	if length >= 0 && length < int64(len(part)) {
		part = part[:length]
	}
	return &bufferReader{Reader: bytes.NewReader(part), release: func() { s.buffers.release(b) }}
}

type bufferReader struct {
	*bytes.Reader
	release func()
}

// Close implements [io.Closer]. It must be called only once.
func (r *bufferReader) Close() error {
	r.release()
	return nil
}

// openStored opens a page in the store, and adds it to the cache as it is read. If there is no cache and
// the body is a file, the file is kept open for the next requests or, if it is small, its bytes are kept.
func (s *source) openStored(ctx context.Context, f *Feed, n, offset, length int64) (*chain.Page, io.ReadCloser, error) {
	whole := offset == 0 && length < 0
	if whole && n >= f.SeenFloor() {
		if p, body := s.small.open(pageKey{f, n}); p != nil {
			return p, body, nil
		}
		if file := s.files.take(pageKey{f, n}); file != nil {
			return s.lend(file)
		}
	}
	read := time.Now()
	p, object, err := f.reader.Open(ctx, n, offset, length)
	if err != nil {
		return nil, nil, err
	}
	p = s.remember(f, p)
	if !whole {
		part, err := s.integrity.part(ctx, object, p.SHA256)
		return p, part, err
	}
	if body, ok := object.Body.(sendable); ok && s.integrity.network && s.cache == nil {
		until := read.Add(openFileAge)
		if object.Size <= maxSmall && s.small.reserve(object.Size) {
			return s.load(&smallPage{key: pageKey{f, n}, page: p, until: until}, object)
		}
		return s.lend(&openFile{pageKey{f, n}, p, object, body, until})
	}
	body, err := s.integrity.whole(object, p.SHA256)
	if err != nil {
		return nil, nil, err
	}
	if s.cache != nil {
		if w := s.cache.Create(p); w != nil {
			return p, &keepingBody{body, w}, nil
		}
	}
	return p, body, nil
}

// load reads a small page, for which room must have been reserved, into memory and verifies it.
func (s *source) load(small *smallPage, object *storage.Object) (*chain.Page, io.ReadCloser, error) {
	data, err := s.integrity.load(object, small.page.SHA256)
	if err != nil {
		s.small.free(object.Size)
		return nil, nil, err
	}
	small.data = data
	return small.page, s.small.add(small), nil
}

// lend returns the verified body of an open file.
func (s *source) lend(file *openFile) (*chain.Page, io.ReadCloser, error) {
	body, err := s.integrity.whole(file.object, file.page.SHA256)
	if err != nil {
		return nil, nil, err
	}
	if _, sent := body.(sendable); !sent {
		return file.page, body, nil // the body is verified as it is read, so the file cannot be kept
	}
	return file.page, &lentFile{file: file, files: &s.files}, nil
}

// A keepingBody writes a page to the cache as it is read.
type keepingBody struct {
	io.ReadCloser
	writer *pagecache.Writer
}

func (b *keepingBody) Read(data []byte) (int, error) {
	n, err := b.ReadCloser.Read(data)
	_, _ = b.writer.Write(data[:n]) // never fails
	if err == io.EOF {
		b.writer.Commit()
	}
	return n, err
}

func (b *keepingBody) Close() error {
	b.writer.Abort()
	return b.ReadCloser.Close()
}

// fetch fills a buffer in the background.
func (s *source) fetch(f *Feed, b *buffer) {
	if s.background.run(func(ctx context.Context) {
		defer s.buffers.release(b)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s.buffers.begun(b, cancel)
		b.err = s.read(ctx, f, b)
		if errors.Is(ctx.Err(), context.Canceled) {
			b.err = errUnbuffered // the reader is closing: waiting callers read the page themselves
		}
		s.buffers.finish(b)
		if b.err == nil && b.state == "" && s.cache != nil {
			s.cache.Keep(b.page, b.body)
			if s.cache.Has(f.name, b.number) {
				s.buffers.retire(b)
			}
		}
	}) {
		return
	}
	b.err = errUnbuffered
	s.buffers.finish(b)
	s.buffers.release(b)
}

// read reads a page from the store into a buffer, and verifies it. For the newest page, it also computes the
// digest of the page with its closing delimiter.
func (s *source) read(ctx context.Context, f *Feed, b *buffer) error {
	p, object, err := f.reader.Open(ctx, b.number, 0, -1)
	if err != nil {
		return err
	}
	if b.state == "" {
		s.remember(f, p)
	}
	if !s.buffers.resize(b, p.Size) {
		return errors.Join(errUnbuffered, object.Body.Close())
	}
	b.page = p
	if body, ok := storage.AsLoaded(object.Body); ok && b.state == "" {
		b.body, b.lender = body.Bytes(), body
		sum := body.SHA256()
		err = s.integrity.compare(objectState{object.Key, object.Version, p.SHA256}, sum[:])
		f.size.Store(p.Size)
		return err
	}
	defer object.Body.Close()
	b.body = s.buffers.memory(p.Size)
	hash := sha256.New()
	if err := readWhole(object, b.body, hash); err != nil {
		return err
	}
	if err := s.integrity.check(objectState{object.Key, object.Version, p.SHA256}, hash); err != nil {
		return err
	}
	f.size.Store(p.Size)
	if b.state == "" {
		return nil
	}
	if !p.Closed {
		hash.Write(page.AppendClose(nil, p.Boundary))
	}
	b.digest = hash.Sum(nil)
	return nil
}
