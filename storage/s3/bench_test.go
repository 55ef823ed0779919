package s3_test

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/feedctl/feedctl/internal/s3test"
	"github.com/feedctl/feedctl/storage"
)

// inFlight is the number of concurrent requests.
const inFlight = 16

// BenchmarkPut and BenchmarkGet compare the driver with the SDK alone, for objects
// of 1 MiB.
func BenchmarkPut(b *testing.B) {
	server := s3test.Start(b)
	s, n := newStore(b, server, "bench"), new(atomic.Int64)
	client, bucket := rawClient(b, server)
	data := pattern(1 << 20)
	b.Run("driver", func(b *testing.B) {
		each(b, len(data), func() error {
			_, err := s.Create(b.Context(), fmt.Sprint("a", n.Add(1)), storage.Meta{}, storage.Bytes(data))
			return err
		})
	})
	b.Run("sdk", func(b *testing.B) {
		each(b, len(data), func() error {
			_, err := client.PutObject(b.Context(), &sdk.PutObjectInput{
				Bucket: bucket, Key: aws.String(fmt.Sprint("b", n.Add(1))), Body: bytes.NewReader(data),
			})
			return err
		})
	})
}

func BenchmarkGet(b *testing.B) {
	server := s3test.Start(b)
	s := newStore(b, server, "bench")
	client, bucket := rawClient(b, server)
	data := pattern(1 << 20)
	must[storage.Version](b)(s.Create(b.Context(), "a", storage.Meta{}, storage.Bytes(data)))
	b.Run("driver", func(b *testing.B) {
		each(b, len(data), func() error {
			o, err := s.Get(b.Context(), "a", 0, -1)
			if err != nil {
				return err
			}
			defer o.Body.Close()
			_, err = io.Copy(io.Discard, o.Body)
			return err
		})
	})
	b.Run("sdk", func(b *testing.B) {
		each(b, len(data), func() error {
			o, err := client.GetObject(b.Context(), &sdk.GetObjectInput{Bucket: bucket, Key: objectOf(server, "bench", "a")})
			if err != nil {
				return err
			}
			defer o.Body.Close()
			_, err = io.Copy(io.Discard, o.Body)
			return err
		})
	})
}

// each runs b.N calls, inFlight at a time.
func each(b *testing.B, size int, call func() error) {
	b.SetBytes(int64(size))
	b.SetParallelism(inFlight)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if err := call(); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
