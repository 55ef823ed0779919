package couchdiff

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// A database is given by its URL, without a slash at the end. The client must have a timeout.
type database struct {
	url    string
	client *http.Client
}

// A leaf is a leaf revision, including _revisions, as decoded JSON. Numbers are of type [json.Number].
type leaf map[string]any

const attachmentsMember = "_attachments"

// An attachment holds those metadata of an attachment that replication preserves. The digest is omitted:
// a server that compresses attachments computes the digest over the compressed bytes.
type attachment struct {
	contentType string
	revpos      string
}

func (l leaf) attachments() map[string]attachment {
	all := make(map[string]attachment)
	stubs, _ := l[attachmentsMember].(map[string]any)
	for name, stub := range stubs {
		stub, _ := stub.(map[string]any)
		all[name] = attachment{fmt.Sprint(stub["content_type"]), fmt.Sprint(stub["revpos"])}
	}
	return all
}

// rewritesRevpos reports whether the server, like PouchDB's engine, sets the revpos of attachments that
// are written with their data to the number of the revision.
func (d database) rewritesRevpos(ctx context.Context) (bool, error) {
	var server map[string]any
	root := database{d.url[:strings.LastIndexByte(d.url, '/')], d.client}
	if err := root.json(ctx, "/", &server); err != nil {
		return false, err
	}
	_, found := server["express-pouchdb"]
	return found, nil
}

// ids returns the ids of all documents, including deleted ones.
func (d database) ids(ctx context.Context) (map[string]bool, error) {
	var changes struct {
		Results []struct {
			ID string `json:"id"`
		} `json:"results"`
		LastSeq any `json:"last_seq"`
	}
	if err := d.json(ctx, "/_changes?style=all_docs", &changes); err != nil {
		return nil, err
	}
	if changes.LastSeq == nil {
		return nil, errors.New("the changes feed is cut short: it has no last_seq")
	}
	all := make(map[string]bool)
	for _, row := range changes.Results {
		all[row.ID] = true
	}
	return all, nil
}

// leaves returns all leaves of a document by revision.
func (d database) leaves(ctx context.Context, id string) (map[string]leaf, error) {
	var answer []struct {
		OK      leaf   `json:"ok"`
		Missing string `json:"missing"`
	}
	if err := d.json(ctx, "/"+escape(id)+"?open_revs=all&revs=true", &answer); err != nil {
		return nil, err
	}
	all := make(map[string]leaf)
	for _, a := range answer {
		rev, _ := a.OK["_rev"].(string)
		if rev == "" {
			return nil, fmt.Errorf("document %q: revision %q is listed but not there", id, a.Missing)
		}
		all[rev] = a.OK
	}
	return all, nil
}

// digest returns the size and the SHA-256 of an attachment's bytes.
func (d database) digest(ctx context.Context, id, rev, name string) (string, error) {
	body, err := d.get(ctx, "/"+escape(id)+"/"+escape(name)+"?rev="+url.QueryEscape(rev), "*/*")
	if err != nil {
		return "", err
	}
	defer body.Close()
	hash := sha256.New()
	n, err := io.Copy(hash, body)
	if err != nil {
		return "", fmt.Errorf("read attachment %q of document %q: %w", name, id, err)
	}
	return fmt.Sprintf("%d bytes with SHA-256 %x", n, hash.Sum(nil)), nil
}

func (d database) json(ctx context.Context, path string, v any) error {
	// Without this Accept field, CouchDB returns open_revs as multipart/mixed.
	body, err := d.get(ctx, path, "application/json")
	if err != nil {
		return err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		return fmt.Errorf("read answer to GET %s: %w", path, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(v); err != nil {
		return fmt.Errorf("read answer to GET %s: %w", path, err)
	}
	return nil
}

// These constants limit the time for a response and the number of attempts. They are necessary because
// PouchDB Server, after being killed and restarted, once did not respond to a read of an attachment.
const (
	answerTime = time.Minute
	attempts   = 3
)

// get returns the body of a response with status 200. The transport decompresses it.
func (d database) get(ctx context.Context, path, accept string) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+path, nil)
	if err != nil {
		return nil, fmt.Errorf("make request for %s: %w", path, err)
	}
	r.Header.Set("Accept", accept)
	response, err := d.client.Do(r)
	for n := 1; n < attempts && os.IsTimeout(err) && ctx.Err() == nil; n++ {
		response, err = d.client.Do(r)
	}
	if err != nil {
		return nil, err // the error includes the method, and the URL without its password
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		answer, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		return nil, fmt.Errorf("GET %s: %s: %s", r.URL.Redacted(), response.Status, answer)
	}
	return response.Body, nil
}

// escape makes an id or a name one segment of a path. Only the slash after _design is kept.
func escape(id string) string {
	if name, ok := strings.CutPrefix(id, "_design/"); ok {
		return "_design/" + url.PathEscape(name)
	}
	switch id {
	case ".":
		return "%2E"
	case "..":
		return "%2E%2E"
	}
	return url.PathEscape(id)
}
