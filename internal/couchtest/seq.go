package couchtest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// A vector says how far each shard was read.
type vector [shards]int

func (v vector) sum() (n int) {
	for _, seq := range v {
		n += seq
	}
	return n
}

// end returns the position after all updates.
func (db *database) end() (v vector) {
	for shard := range db.log {
		v[shard] = len(db.log[shard])
	}
	return v
}

// A position is the content of the opaque part of a sequence. The salt makes the text different every time.
type position struct {
	Salt     uint64
	Database int
	Rewinds  int // how many rewinds had happened
	Vector   vector
}

// token returns a sequence for a vector, as a JSON string. The caller must hold f.mu.
func (f *Fake) token(db *database, v vector) []byte { return f.salted(db, v, f.random.Uint64()) }

// endToken returns the sequence at the end of a database. Like CouchDB's update_seq, it changes only when the end
// does. CouchDB takes it from those copies of the shards that respond first, so there is one possible text for
// each copy. The caller must hold f.mu.
func (f *Fake) endToken(db *database) []byte {
	return f.salted(db, db.end(), f.random.Uint64N(uint64(max(f.Copies, 1))))
}

func (f *Fake) salted(db *database, v vector, salt uint64) []byte {
	text, err := json.Marshal(position{salt, db.number, len(db.rewinds), v})
	if err != nil {
		panic(err) // cannot happen: a position holds only numbers
	}
	return quote(fmt.Sprintf("%d-g1AAAA%s", v.sum(), base64.RawURLEncoding.EncodeToString(text)))
}

var errMalformedSequence = badRequest("Malformed sequence supplied in 'since' parameter.")

// parsePosition parses a sequence that token or endToken has returned.
func parsePosition(token string) (p position, err error) {
	_, opaque, ok := strings.Cut(strings.Trim(token, `"`), "-g1AAAA")
	text, err := base64.RawURLEncoding.DecodeString(opaque)
	if !ok || err != nil || json.Unmarshal(text, &p) != nil {
		return p, errMalformedSequence
	}
	return p, nil
}

// since returns where a feed begins. A sequence of another database is ignored, so the feed begins at 0. If a
// sequence was sent before a rewind, the feed begins no later than at the point of that rewind.
func (db *database) since(token string) (vector, error) {
	switch token {
	case "", "0":
		return vector{}, nil
	case "now":
		return db.end(), nil
	}
	p, err := parsePosition(token)
	if err != nil || p.Database != db.number {
		return vector{}, err
	}
	return db.rewound(p.Vector, p.Rewinds), nil
}

// rewound returns v, moved back to the points in db.rewinds[seen:] if it is beyond them.
func (db *database) rewound(v vector, seen int) vector {
	for _, to := range db.rewinds[min(seen, len(db.rewinds)):] { // a restored database may have fewer rewinds than seen
		for shard := range v {
			v[shard] = min(v[shard], to[shard])
		}
	}
	return v
}

// A cursor walks the rows of a database.
type cursor struct {
	db     *database
	random *rand.Rand // decides which shard is next
	at     vector
	seen   int // how many rewinds have been applied to at
}

// next returns the next row and moves past it. The caller must hold f.mu.
func (c *cursor) next() (entry, bool) {
	c.at, c.seen = c.db.rewound(c.at, c.seen), len(c.db.rewinds)
	shard := c.random.IntN(shards)
	for range shards {
		for log := c.db.log[shard]; c.at[shard] < len(log); {
			c.at[shard]++
			if c.db.live(shard, c.at[shard]) {
				return log[c.at[shard]-1], true
			}
		}
		shard = (shard + 1) % shards
	}
	return entry{}, false
}

// pending counts the rows after the cursor. The caller must hold f.mu.
func (c *cursor) pending() (n int) {
	for shard, log := range c.db.log {
		for seq := c.at[shard] + 1; seq <= len(log); seq++ {
			if c.db.live(shard, seq) {
				n++
			}
		}
	}
	return n
}
