package main

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/feedctl/feedctl/feed"
)

// entitySize is the size of an entity's body, in bytes.
const entitySize = 1000

// newEntity makes entity i: a JSON object of 1,000 bytes under the key i.
func newEntity(i int) *feed.Entity {
	body := make([]byte, 0, entitySize)
	body = fmt.Appendf(body, `{"id":%d,"text":"`, i)
	body = append(body, bytes.Repeat([]byte{'a' + byte(i%26)}, entitySize-len(body)-2)...)
	body = append(body, `"}`...)
	return &feed.Entity{
		Operation:       feed.Put,
		ContentType:     "application/json",
		ContentLocation: strconv.Itoa(i),
		Body:            body,
	}
}
