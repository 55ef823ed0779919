package s3

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/feedctl/feedctl/storage"
)

// maxPresign is S3's limit for the time during which a presigned URL is valid.
const maxPresign = 7 * 24 * time.Hour

// Presign implements [storage.Presigner]. A URL is valid for at most a week and
// cannot outlive the credentials that sign it.
func (s *Store) Presign(ctx context.Context, key string, valid time.Duration) (string, error) {
	if err := storage.CheckKey(key); err != nil {
		return "", fmt.Errorf("presign: %w", err)
	}
	if valid < time.Second || valid > maxPresign {
		return "", s.failed("presign", key, fmt.Errorf("valid for %v: want 1s to %v", valid, maxPresign))
	}
	credentials, err := s.credentials.Retrieve(ctx)
	if err != nil {
		return "", s.failed("presign", key, fmt.Errorf("%w: no credentials: %w; %s", storage.ErrPermission, err, credentialsAdvice))
	}
	if credentials.CanExpire && time.Now().Add(valid).After(credentials.Expires) {
		return "", s.failed("presign", key, fmt.Errorf("the credentials expire at %s, before the URL: use an access key of a user,"+
			" or a shorter time", credentials.Expires.UTC().Format(time.RFC3339)))
	}
	request, err := s3.NewPresignClient(s.client).PresignGetObject(ctx,
		&s3.GetObjectInput{Bucket: s.bucket(), Key: s.object(key)}, s3.WithPresignExpires(valid))
	if err != nil {
		return "", s.failed("presign", key, err)
	}
	return request.URL, nil
}
