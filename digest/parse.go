package digest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/feedctl/feedctl/feed"
)

// ErrInvalid is matched by the errors of the parsers for invalid bytes, nothing of which may be
// used.
var ErrInvalid = errors.New("invalid digest")

// ErrVersion means that a root was written by a newer version of the algorithm.
var ErrVersion = errors.New("unknown version of the digest")

// ParseRoot reads a root to its end, at most [MaxRoot] bytes. It checks the order of the nodes,
// their counts and the hash.
func ParseRoot(source io.Reader) (*Root, error) {
	r, err := parseRoot(source)
	if err != nil {
		return nil, fmt.Errorf("read digest: %w", err)
	}
	return r, nil
}

func parseRoot(source io.Reader) (*Root, error) {
	limited := &io.LimitedReader{R: source, N: MaxRoot + 1}
	scanner := newScanner(limited)
	var r *Root
	for scanner.Scan() {
		if r == nil {
			var err error
			if r, err = parseHead(scanner.Bytes()); err != nil {
				return nil, err
			}
			continue
		}
		c, err := parseChild(scanner.Bytes())
		if err != nil {
			return nil, err
		}
		r.Nodes = append(r.Nodes, c)
	}
	switch {
	case limited.N <= 0:
		return nil, fmt.Errorf("%w: root is larger than %d bytes", ErrInvalid, MaxRoot)
	case errors.Is(scanner.Err(), bufio.ErrTooLong):
		return nil, fmt.Errorf("%w: %w", ErrInvalid, scanner.Err())
	case scanner.Err() != nil:
		return nil, scanner.Err()
	case r == nil:
		return nil, fmt.Errorf("%w: root is empty", ErrInvalid)
	}
	if err := checkChildren(r.Nodes, All); err != nil {
		return nil, err
	}
	if n := count(r.Nodes); n != r.Count {
		return nil, fmt.Errorf("%w: root has %d keys, its nodes have %d", ErrInvalid, r.Count, n)
	}
	if h := RootHash(r.Nodes); h != r.Hash {
		return nil, fmt.Errorf("%w: hash of the root is %s, that of its nodes %s", ErrInvalid, r.Hash, h)
	}
	return r, nil
}

func parseHead(line []byte) (*Root, error) {
	var v struct {
		Version int `json:"digest"`
	}
	if err := json.Unmarshal(line, &v); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if v.Version > version {
		return nil, fmt.Errorf("%w: %d is newer than %d", ErrVersion, v.Version, version)
	}
	var head rootLine
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if v.Version != version || head.Hash == nil || head.Feed.URL == "" || head.Count < 0 {
		return nil, fmt.Errorf("%w: the first line is not that of a root", ErrInvalid)
	}
	return &Root{Feed: head.Feed, Snapshot: head.Snapshot, Versions: head.Versions, Tree: Tree{Count: head.Count, Hash: *head.Hash}}, nil
}

// ParseNode returns the leaves of a node. It checks that data has the name, the hash and the
// number of keys in want, and that the leaves are in order and fill the range.
func ParseNode(data []byte, want Child, r Range) ([]Child, error) {
	leaves, err := parse(data, want, r, "node", parseChild)
	if err != nil {
		return nil, err
	}
	err = checkChildren(leaves, r)
	if n := count(leaves); err == nil && n != want.Count {
		err = fmt.Errorf("%w: it has %d keys, want %d", ErrInvalid, n, want.Count)
	}
	if h := NodeHash(leaves); err == nil && h != want.Hash {
		err = fmt.Errorf("%w: its hash is %s, want %s", ErrInvalid, h, want.Hash)
	}
	if err != nil {
		return nil, fmt.Errorf("read node %s of digest: %w", want.Object, err)
	}
	return leaves, nil
}

// ParseLeaf returns the entries of a leaf. It checks that data has the name, the hash and the
// number of keys in want, and that the keys are in order and within the range.
func ParseLeaf(data []byte, want Child, r Range) ([]Entry, error) {
	entries, err := parse(data, want, r, "leaf", parseEntry)
	if err != nil {
		return nil, err
	}
	var hasher LeafHasher
	for i, e := range entries {
		if !r.Contains(e.Key) || i > 0 && e.Key <= entries[i-1].Key {
			return nil, fmt.Errorf("read leaf %s of digest: %w: key %q is out of order or range", want.Object, ErrInvalid, e.Key)
		}
		hasher.Add(e.Key, e.Sum)
	}
	if hasher.Count() != want.Count {
		err = fmt.Errorf("%w: it has %d keys, want %d", ErrInvalid, hasher.Count(), want.Count)
	} else if h := hasher.Sum(); h != want.Hash {
		err = fmt.Errorf("%w: its hash is %s, want %s", ErrInvalid, h, want.Hash)
	}
	if err != nil {
		return nil, fmt.Errorf("read leaf %s of digest: %w", want.Object, err)
	}
	return entries, nil
}

// parse checks the name of an object, and then parses its lines.
func parse[T any](data []byte, want Child, r Range, kind string, line func([]byte) (T, error)) (all []T, err error) {
	switch sum := Hash(sha256.Sum256(data)); {
	case len(data) > MaxObject:
		err = fmt.Errorf("%w: it has %d bytes, more than %d", ErrInvalid, len(data), MaxObject)
	case sum != want.Object:
		err = fmt.Errorf("%w: its SHA-256 is %s", ErrInvalid, sum)
	case want.From != r.From:
		err = fmt.Errorf("%w: it begins at %q, its range at %q", ErrInvalid, want.From, r.From)
	}
	scanner := newScanner(bytes.NewReader(data))
	for err == nil && scanner.Scan() {
		var one T
		if one, err = line(scanner.Bytes()); err == nil {
			all = append(all, one)
		}
	}
	if err == nil && scanner.Err() != nil {
		err = fmt.Errorf("%w: %w", ErrInvalid, scanner.Err())
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s of digest: %w", kind, want.Object, err)
	}
	return all, nil
}

// maxLine is the maximum length, in bytes, of a line of a node or leaf. An encoded key may take
// three times its size.
const maxLine = 4*MaxKey + 4096

func newScanner(source io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(source)
	s.Buffer(nil, maxLine)
	return s
}

// checkChildren checks that children are in order and cover a range, and that none is empty.
func checkChildren(children []Child, r Range) error {
	for i, c := range children {
		switch {
		case i == 0 && c.From != r.From:
			return fmt.Errorf("%w: it begins at %q, its range at %q", ErrInvalid, c.From, r.From)
		case i > 0 && (c.From <= children[i-1].From || !r.Contains(c.From)):
			return fmt.Errorf("%w: range from %q is out of order", ErrInvalid, c.From)
		}
	}
	return nil
}

func parseChild(line []byte) (Child, error) {
	var c childLine
	if err := json.Unmarshal(line, &c); err != nil {
		return Child{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if c.From == nil || c.Hash == nil || c.Object == nil || c.Count < 1 || c.Count > maxCount {
		return Child{}, fmt.Errorf("%w: line %.100q lacks a member or has an invalid one", ErrInvalid, line)
	}
	from, err := parseKey(*c.From)
	return Child{from, c.Count, *c.Hash, *c.Object}, err
}

// maxCount limits counts so that their sum in a root does not overflow.
const maxCount = 1 << 40

func parseEntry(line []byte) (Entry, error) {
	var e entryLine
	if err := json.Unmarshal(line, &e); err != nil {
		return Entry{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if e.Key == nil || *e.Key == "" || e.Sum == nil || e.Page < 0 || e.Offset < 0 || len(e.ContentID) > MaxContentID {
		return Entry{}, fmt.Errorf("%w: line %.100q lacks a member or has an invalid one", ErrInvalid, line)
	}
	key, err := parseKey(*e.Key)
	return Entry{key, *e.Sum, e.ContentID, e.Page, e.Offset}, err
}

// parseKey decodes a key. Only one encoding of each key is allowed.
func parseKey(text string) (string, error) {
	key, err := url.PathUnescape(text)
	if err != nil {
		return "", fmt.Errorf("%w: key: %w", ErrInvalid, err)
	}
	if len(key) > MaxKey || feed.EncodeKey(key) != text {
		return "", fmt.Errorf("%w: key %.100q is not percent-encoded, or longer than %d bytes", ErrInvalid, text, MaxKey)
	}
	return key, nil
}
