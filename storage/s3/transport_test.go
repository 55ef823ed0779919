package s3

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestStall: a connection works as long as bytes pass in either direction, and fails when none do
// for too long.
func TestStall(t *testing.T) {
	const stall = time.Minute
	for name, pass := range map[string]func(ours, theirs net.Conn) error{
		"received": func(ours, theirs net.Conn) error {
			go func() { _, _ = theirs.Write([]byte("x")) }()
			_, err := ours.Read(make([]byte, 1))
			return err
		},
		"sent": func(ours, theirs net.Conn) error {
			go func() { _, _ = theirs.Read(make([]byte, 1)) }()
			_, err := ours.Write([]byte("x"))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				defer theirs.Close()
				conn := &watchedConn{Conn: ours, stall: stall}
				defer conn.Close()
				for range 10 {
					time.Sleep(stall * 9 / 10) // of the bubble
					if err := pass(conn, theirs); err != nil {
						t.Fatal(err)
					}
				}
				// Each write extends the deadline of a read that began earlier.
				read := make(chan error)
				go func() {
					_, err := conn.Read(make([]byte, 1))
					read <- err
				}()
				time.Sleep(stall * 9 / 10)
				go func() { _, _ = theirs.Read(make([]byte, 1)) }()
				if _, err := conn.Write([]byte("x")); err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != stall {
					t.Errorf("after %v: %v", time.Since(begin), err)
				}
			})
		})
	}
}

// TestLargeWrite: each piece of a large write has its own deadline.
func TestLargeWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		conn := &watchedConn{Conn: ours, stall: time.Minute}
		defer conn.Close()
		data := make([]byte, 1<<20)
		go func() {
			for range 16 {
				time.Sleep(50 * time.Second)
				for read := 0; read < len(data)/16; {
					n, err := theirs.Read(make([]byte, len(data)/16-read))
					if err != nil {
						return
					}
					read += n
				}
			}
		}()
		if n, err := conn.Write(data); n != len(data) || err != nil {
			t.Errorf("wrote %d bytes, %v", n, err)
		}
	})
}
