package tcp

import (
	"context"
	"net"
	"sync"
)

// serverBuffer is the size of the buffer of a connection of [net/http.Server].
const serverBuffer = 4 << 10

// A Joined is a connection that can send two writes together. [net/http.Server] sends a header and as
// many bytes of a body as fit into its buffer in one write, and the rest in another. The second write
// costs a system call and a packet, and makes the client read twice. Only one goroutine may write.
type Joined struct {
	*net.TCPConn
	spare *sync.Pool // of *[]byte
	held  *[]byte    // bytes held back; nil unless writes are joined
}

// Join returns a listener like l whose connections are [*Joined]. [Listen] must have returned l.
func Join(l net.Listener) net.Listener {
	spare := &sync.Pool{New: func() any { b := make([]byte, 0, serverBuffer); return &b }}
	return joining{l, spare}
}

type joining struct {
	net.Listener
	spare *sync.Pool
}

func (l joining) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller examines it
	}
	if c, ok := conn.(*net.TCPConn); ok {
		return &Joined{TCPConn: c, spare: l.spare}, nil
	}
	return conn, nil
}

// Begin makes the connection hold back a full buffer until the next write. The caller must call End.
func (c *Joined) Begin() { c.held = c.spare.Get().(*[]byte) }

// End sends what is still held back.
func (c *Joined) End() (err error) {
	if len(*c.held) > 0 {
		_, err = c.sendWith(nil)
	}
	c.spare.Put(c.held)
	c.held = nil
	return err
}

// Write implements [io.Writer].
func (c *Joined) Write(p []byte) (int, error) {
	if c.held == nil {
		return c.TCPConn.Write(p) //nolint:wrapcheck // a Conn returns its errors as they are
	}
	if len(*c.held) == 0 && len(p) == serverBuffer {
		*c.held = append(*c.held, p...)
		return len(p), nil
	}
	return c.sendWith(p)
}

// sendWith sends the bytes held back, followed by p.
func (c *Joined) sendWith(p []byte) (n int, err error) {
	held := len(*c.held)
	both := net.Buffers{*c.held, p}
	sent, err := both.WriteTo(c.TCPConn)
	*c.held = (*c.held)[:0]
	return max(int(sent)-held, 0), err //nolint:wrapcheck // as in Write
}

type joinedKey struct{}

// WithJoined returns a context for the requests of a connection: for [net/http.Server.ConnContext].
func WithJoined(ctx context.Context, c net.Conn) context.Context {
	if joined, ok := c.(*Joined); ok {
		return context.WithValue(ctx, joinedKey{}, joined)
	}
	return ctx
}

// JoinedFrom returns the connection of a request, or nil if it is not Joined.
func JoinedFrom(ctx context.Context) *Joined {
	joined, _ := ctx.Value(joinedKey{}).(*Joined)
	return joined
}
