//go:build unix

package file

import (
	"context"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/feedctl/feedctl/storage"
)

// maxTail is the size of the largest tail that is synced together with the state, in
// bytes. During an append, a reader reads the tail to check it.
const maxTail = 1 << 20

// room is the number of zeros that a small append writes after the body, so that later appends
// change neither the size of the file nor its blocks. This makes syncing the file much faster.
const room = 64 << 10

// Append implements [storage.Store]. The tail is read while the key is locked.
func (s *Store) Append(ctx context.Context, key string, at storage.Version, meta storage.Meta, tail storage.Body) (storage.Version, error) {
	if err := checkWrite(ctx, key, meta); err != nil {
		return "", failed("append to", key, err)
	}
	version, err := s.append(ctx, key, at, meta, tail)
	if err != nil {
		return "", failed("append to", key, err)
	}
	return version, nil
}

func (s *Store) append(ctx context.Context, key string, at storage.Version, meta storage.Meta, tail storage.Body) (storage.Version, error) {
	unlock, err := s.locks.lock(ctx, key)
	if err != nil {
		return "", err
	}
	defer unlock()
	a, err := s.openAppend(key)
	if err != nil {
		return "", goneIsConflict(err)
	}
	defer a.close()
	old := a.old()
	if err := expect(old.Version, at); err != nil {
		return "", err
	}
	if tail.Size() > math.MaxInt64-old.Size {
		return "", fmt.Errorf("%w: %d bytes cannot follow %d", storage.ErrSize, tail.Size(), old.Size)
	}
	if err := a.prepare(); err != nil {
		return "", err
	}
	st, final, err := a.write(ctx, meta, tail)
	if err != nil {
		if final {
			// Free the space now; otherwise the next append or a sweep would do so.
			_ = a.body.Truncate(old.Size)
		}
		return "", err
	}
	if storage.IsLast(tail) {
		_ = trim(a.body, st.Size) // if this fails, a sweep trims the file later
	}
	return st.Version, nil
}

// An appending is an append to an object that the caller has locked.
type appending struct {
	store  *Store
	key    string
	meta   *os.File
	body   *os.File // nil until it is opened by prepare or finish
	record          // the metadata file as read by openAppend
	slot   int      // the slot with the state before the append
}

// openAppend reads the metadata file of key, which the caller has locked.
func (s *Store) openAppend(key string) (*appending, error) {
	f, err := s.openMeta(key, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	a := &appending{store: s, key: key, meta: f}
	if a.record, err = readRecord(f); err == nil {
		a.slot, err = s.current(key, &a.record)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return a, nil
}

func (a *appending) close() {
	a.meta.Close()
	if a.body != nil {
		a.body.Close()
	}
}

// old returns the state of the object before the append.
func (a *appending) old() *state { return a.states[a.slot] }

// prepare makes the files ready for an append.
func (a *appending) prepare() error {
	if err := a.store.upgrade(); err != nil {
		return err
	}
	if err := a.finish(); err != nil {
		return err
	}
	return a.openBody()
}

func (a *appending) openBody() (err error) {
	if a.body == nil {
		a.body, err = a.store.openBody(a.key, a.old(), os.O_RDWR)
	}
	return err
}

// finish completes an earlier append that was interrupted: it makes the state before this append
// durable, and then writes that state to both slots. It rewrites data that may not be on the disk,
// since after a failed sync the operating system may wrongly regard that data as written.
func (a *appending) finish() error {
	if a.slotSize == 0 || a.agree() {
		return nil
	}
	if err := a.openBody(); err != nil {
		return err
	}
	old, other := a.old(), 1-a.slot
	slot := a.data[a.slot*a.slotSize:][:a.slotSize]
	if _, err := io.Copy(io.NewOffsetWriter(a.body, old.Size-old.Tail), tailOf(a.body, old)); err != nil {
		return refusal(err)
	}
	if err := a.writeSlot(a.slot, slot); err != nil {
		return refusal(err)
	}
	if err := together(a.syncMeta, a.syncBody, a.syncDir); err != nil {
		return refusal(err)
	}
	if err := a.writeSlot(other, slot); err != nil {
		return refusal(err)
	}
	a.states[other] = old
	return refusal(a.syncMeta())
}

func (a *appending) syncMeta() error { return datasync(a.meta) }
func (a *appending) syncBody() error { return datasync(a.body) }
func (a *appending) syncDir() error  { return syncDir(a.store.inObjects(dirOf(a.key))) }

func (a *appending) writeSlot(slot int, data []byte) error {
	_, err := a.meta.WriteAt(data, int64(slot*a.slotSize))
	return err
}

// write writes the tail to the body file and commits the new state. If it fails and final is true,
// the new state is certain not to take effect.
func (a *appending) write(ctx context.Context, meta storage.Meta, tail storage.Body) (st state, final bool, err error) {
	old, size := a.old(), tail.Size()
	st = newState(meta, old.Body, old.Size+size)
	sum := crc32.New(castagnoli)
	if err := a.store.copyBody(ctx, io.MultiWriter(io.NewOffsetWriter(a.body, old.Size), sum), tail); err != nil {
		return st, true, err
	}
	if err := ctx.Err(); err != nil {
		return st, true, err
	}
	if !storage.IsLast(tail) {
		a.makeRoom(st.Size, size)
	}
	encoded, err := a.encode(&st, size, sum)
	if err != nil {
		return st, true, refusal(err)
	}
	if len(encoded) > a.slotSize {
		st.Seq, st.Tail, st.TailCRC = 0, 0, 0
		final, err := a.store.commit(ctx, a.key, st, storage.IsLast(tail), os.Rename, a.body.Sync)
		return st, final, err
	}
	if st.Tail < size {
		if err := a.syncBody(); err != nil {
			return st, true, refusal(err)
		}
	}
	final, err = a.commit(&st, padded(encoded, a.slotSize))
	return st, final, err
}

// makeRoom writes zeros after an append that ended at the offset end, unless the append was large
// or earlier zeros are left. It leaves no zeros if they do not fit on the disk.
func (a *appending) makeRoom(end, size int64) {
	if info, err := a.body.Stat(); err != nil || info.Size() > end || size == 0 || size > room/2 {
		return
	}
	if _, err := a.body.WriteAt(zeros[:], end); err != nil {
		_ = a.body.Truncate(end)
	}
}

var zeros [room]byte

// trim cuts a body file off at the end of the body.
func trim(f *os.File, size int64) error {
	info, err := f.Stat()
	if err == nil && info.Size() > size {
		err = f.Truncate(size)
	}
	return err
}

// encode fills in and encodes the state after an append of size bytes with the given checksum.
func (a *appending) encode(st *state, size int64, sum hash.Hash32) ([]byte, error) {
	st.Seq = a.old().Seq + 1
	if size <= maxTail {
		st.Tail, st.TailCRC = size, sum.Sum32()
	}
	if size == 0 { // otherwise the write has set the time
		if err := unix.Futimes(int(a.body.Fd()), nil); err != nil {
			return nil, os.NewSyscallError("futimes", err)
		}
	}
	info, err := a.body.Stat()
	if err != nil {
		return nil, err
	}
	st.Modified = info.ModTime().UTC()
	return st.encode()
}

// commit writes the encoded state to the slot that was not synced last, syncs it together
// with the tail, and then writes it to the other slot. Its results are as for write.
func (a *appending) commit(st *state, slot []byte) (final bool, err error) {
	to := int(st.Seq % 2)
	if n, err := a.meta.WriteAt(slot, int64(to*a.slotSize)); n == 0 && refused(err) {
		return true, refusal(err)
	} else if err != nil {
		return false, fmt.Errorf("%w; read the object to find out whether it was written", err)
	}
	var syncs []func() error
	if st.Tail > 0 {
		syncs = append(syncs, a.syncBody)
	}
	if st.Seq == 1 { // the process that created the metadata file may not have synced its name yet
		syncs = append(syncs, a.syncDir)
	}
	if err := together(a.syncMeta, syncs...); err != nil {
		return false, fmt.Errorf("%w; the object is written but may be lost in a crash", err)
	}
	// The state is durable now. Its copy in the other slot need not be: if the copy fails or is
	// lost, the next append repeats it.
	_ = a.writeSlot(1-to, slot)
	return true, nil
}
