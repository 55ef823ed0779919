package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
)

//go:embed assets
var assets embed.FS

// assetURL returns the relative URL of a file of assets. It contains a digest of the file, so that browsers may keep
// the file.
func assetURL(name string) (string, error) {
	data, err := assets.ReadFile("assets/" + name)
	if err != nil {
		return "", fmt.Errorf("read asset: %w", err)
	}
	sum := sha256.Sum256(data)
	return "assets/" + name + "?v=" + hex.EncodeToString(sum[:6]), nil
}

// getAsset answers a request for a file of assets.
func (c *Console) getAsset(w http.ResponseWriter, r *http.Request) {
	if err := c.access.Read(w.Header(), r); err != nil {
		c.fail(w, r, err)
		return
	}
	name := chi.URLParam(r, "name")
	data, err := assets.ReadFile("assets/" + name)
	if err != nil {
		c.fail(w, r, errNoPage)
		return
	}
	w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(data))
}
