package feed

import "net/url"

// Key returns the key of the entity: ContentLocation with its percent-encoding
// undone, or unchanged if the encoding is invalid. It is empty if ContentLocation is.
func (e *Entity) Key() string {
	key, err := url.PathUnescape(e.ContentLocation)
	if err != nil {
		return e.ContentLocation
	}
	return key
}

// EncodeKey returns the Content-Location for a key, which may contain any bytes. It percent-encodes
// all bytes except the unreserved characters of RFC 3986, section 2.3. [Entity.Key] decodes it.
func EncodeKey(key string) string {
	encoded := 0
	for i := range len(key) {
		if !isUnreserved(key[i]) {
			encoded++
		}
	}
	if encoded == 0 {
		return key
	}
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, len(key)+2*encoded)
	for i := range len(key) {
		if c := key[i]; isUnreserved(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(b)
}

func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '-' || c == '.' || c == '_' || c == '~'
}
