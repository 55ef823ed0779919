package s3

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/storage"
)

// TestNoCredentials: if there are no credentials, the SDK writes nothing to standard error, and the
// error says only once that access is denied.
func TestNoCredentials(t *testing.T) {
	role := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	}))
	defer role.Close()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_PROFILE": "",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
		"AWS_EC2_METADATA_DISABLED": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": role.URL,
	} {
		t.Setenv(name, value)
	}
	path := filepath.Join(t.TempDir(), "stderr")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stderr := os.Stderr
	os.Stderr = file
	defer func() { os.Stderr = stderr }()
	s, err := Connect(t.Context(), Config{Bucket: "bucket", Region: "us-east-1", Endpoint: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Stat(t.Context(), "key")
	if !errors.Is(err, storage.ErrPermission) || strings.Count(err.Error(), storage.ErrPermission.Error()) != 1 {
		t.Errorf("the error is %q", err)
	}
	if text, err := os.ReadFile(path); err != nil || len(text) > 0 {
		t.Errorf("standard error has %q, %v", text, err)
	}
}
