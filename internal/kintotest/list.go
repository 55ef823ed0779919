package kintotest

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A selection says which rows the query of a list selects, and in which order.
type selection struct {
	low, high  int64 // inclusive bounds on the stamp
	bounded    bool  // whether bounds are given, so that tombstones are listed
	ids        []string
	fields     []string
	filters    map[string]string // of members, as JSON
	sort       string
	descending bool
	limit      int
	after      *row // the last row of the preceding page
}

// maxFetch is the setting storage_max_fetch_size.
const maxFetch = 10_000

func (f *Fake) selection(v url.Values) (*selection, *answer) {
	s := &selection{high: 1 << 62, limit: maxFetch, sort: "last_modified", descending: true, filters: map[string]string{}}
	if f.Page > 0 {
		s.limit = f.Page
	}
	for name, values := range v {
		value := values[0]
		bad := invalid("querystring", name, fmt.Sprintf("%q is not a number", value))
		var bound int64
		var err error
		bounds := map[string]string{"_since": "gt_", "_before": "lt_", "_to": "lt_"}
		switch base := cmp.Or(bounds[name], name); {
		case strings.HasPrefix(base, "_"):
		case base == "gt_", base == "lt_", strings.HasSuffix(base, "_last_modified"):
			if bound, err = strconv.ParseInt(strings.Trim(value, `"`), 10, 64); err != nil || bound < 0 {
				return nil, &bad
			}
			if bound > time.Now().Add(24*time.Hour).UnixMilli() {
				bad = invalid("querystring", name, "the timestamp is in the future")
				return nil, &bad
			}
			s.bounded = true
			switch {
			case strings.HasPrefix(base, "gt_"):
				s.low = max(s.low, bound+1)
			case strings.HasPrefix(base, "lt_"):
				s.high = min(s.high, bound-1)
			case strings.HasPrefix(base, "min_"):
				s.low = max(s.low, bound)
			case strings.HasPrefix(base, "max_"):
				s.high = min(s.high, bound)
			}
		case name == "in_id":
			for id := range strings.SplitSeq(value, ",") {
				s.ids = append(s.ids, strings.Trim(id, `"`))
			}
		default:
			s.filters[name] = value
			if !json.Valid([]byte(value)) {
				s.filters[name] = quote(value)
			}
		}
		switch name {
		case "_sort":
			s.sort, _, _ = strings.Cut(value, ",")
			s.sort, s.descending = strings.CutPrefix(s.sort, "-")
		case "_fields":
			s.fields = strings.Split(value, ",")
		case "_limit":
			limit, err := strconv.Atoi(value)
			if err != nil || limit <= 0 {
				return nil, &bad
			}
			s.limit = min(s.limit, limit)
		case "_token":
			if s.after, err = readToken(value); err != nil {
				bad = invalid("querystring", name, "_token has invalid content")
				return nil, &bad
			}
		}
	}
	return s, nil
}

func readToken(text string) (*row, error) {
	var token struct {
		Last struct {
			Stamp int64  `json:"last_modified"`
			ID    string `json:"id"`
		} `json:"last_object"`
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(data, &token)
	}
	return &row{id: token.Last.ID, stamp: token.Last.Stamp}, err
}

func (r *row) token() string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, `{"last_object":{"last_modified":%d,"id":%s}}`, r.stamp, quote(r.id)))
}

func (s *selection) matches(r *row) bool {
	if r.deleted && !s.bounded || r.stamp < s.low || r.stamp > s.high || s.ids != nil && !slices.Contains(s.ids, r.id) {
		return false
	}
	for name, value := range s.filters {
		if string(r.members[name]) != value {
			return false
		}
	}
	return true
}

// candidates returns, in order, rows that follow the preceding page. These include all rows that
// match.
func (s *selection) candidates(l *rows) []*row {
	compare := byStamp
	order := l.order
	switch {
	case s.sort == "id":
		compare = func(a, b *row) int { return strings.Compare(a.id, b.id) }
		order = slices.SortedFunc(maps.Values(l.byID), compare)
	case s.ids != nil:
		order = nil
		for _, id := range s.ids {
			if r := l.byID[id]; r != nil {
				order = append(order, r)
			}
		}
		slices.SortFunc(order, compare)
	}
	if s.descending {
		end := len(order)
		if s.after != nil {
			end, _ = slices.BinarySearchFunc(order, s.after, compare)
		}
		order = slices.Clone(order[:end])
		slices.Reverse(order)
		return order
	}
	from := &row{stamp: s.low}
	if s.sort == "id" {
		from = &row{}
	}
	if s.after != nil && compare(s.after, from) > 0 {
		from = s.after
	}
	begin, same := slices.BinarySearchFunc(order, from, compare)
	if same && s.after != nil {
		begin++
	}
	return order[begin:]
}

// list handles GET and HEAD requests for a list.
func (f *Fake) list(q *call, l *rows) answer {
	if q.method != http.MethodGet && q.method != http.MethodHead {
		return failure(http.StatusMethodNotAllowed, 115, "Method Not Allowed", "Method not allowed on this endpoint.", nil)
	}
	stamp := l.timestamp()
	header := stamps(stamp)
	if failed, a := preconditions(q, stamp, true, header); failed {
		return a
	}
	s, bad := f.selection(q.query)
	if bad != nil {
		return *bad
	}
	if q.query.Has("_to") {
		header.Set("Alert", `{"code":"soft-eol","message":"_to is now deprecated, you should use _before instead","url":"https://kinto.readthedocs.io/en/2.4.0/api/resource.html#list-of-available-url-parameters"}`)
	}
	if q.method == http.MethodHead {
		s.bounded = false
		total := 0
		for _, r := range l.byID {
			if s.matches(r) {
				total++
			}
		}
		header["Total-Objects"], header["Total-Records"] = []string{strconv.Itoa(total)}, []string{strconv.Itoa(total)}
		return answer{http.StatusOK, header, nil}
	}
	body := []byte(`{"data":[`)
	n := 0
	var last *row
	for _, r := range s.candidates(l) {
		if l.byID[r.id] != r || !s.matches(r) {
			continue
		}
		if n == s.limit {
			next := maps.Clone(q.query)
			next.Set("_limit", strconv.Itoa(s.limit))
			next.Set("_token", last.token())
			header.Set("Next-Page", q.root+strings.TrimPrefix(q.path, "/v1")+"?"+next.Encode())
			break
		}
		if n > 0 {
			body = append(body, ',')
		}
		n++
		last = r
		body = append(body, s.project(r)...)
	}
	return answer{http.StatusOK, header, append(body, "]}"...)}
}

// project returns the text of a row with the requested fields.
func (s *selection) project(r *row) []byte {
	if s.fields == nil || r.deleted {
		return r.text
	}
	kept := map[string]json.RawMessage{}
	for _, field := range s.fields {
		name, below, nested := strings.Cut(field, ".")
		value, ok := r.members[name]
		if !ok {
			continue
		}
		if !nested {
			kept[name] = value
			continue
		}
		var inner map[string]json.RawMessage
		if json.Unmarshal(value, &inner) != nil {
			continue
		}
		v, ok := inner[below]
		if !ok {
			continue
		}
		if was, ok := kept[name]; ok { // another field of the same object has been kept before
			kept[name] = json.RawMessage(string(was[:len(was)-1]) + "," + quote(below) + ":" + string(v) + "}")
		} else {
			kept[name] = json.RawMessage("{" + quote(below) + ":" + string(v) + "}")
		}
	}
	return r.render(kept)
}

// changeset handles requests for the changeset of monitor/changes.
func (f *Fake) changeset(q *call) answer {
	since, _ := strconv.ParseInt(strings.Trim(q.query.Get("_since"), `"`), 10, 64)
	if !q.query.Has("_expected") {
		return invalid("querystring", "_expected", "Required")
	}
	newest := int64(0)
	changes := []map[string]any{}
	for b, in := range f.buckets {
		for name, c := range in.collections {
			if stamp := c.rows.timestamp(); stamp > since {
				changes = append(changes, map[string]any{"id": b + "/" + name, "last_modified": stamp, "bucket": b, "collection": name, "host": ""})
				newest = max(newest, stamp)
			}
		}
	}
	slices.SortFunc(changes, func(a, b map[string]any) int { return int(b["last_modified"].(int64) - a["last_modified"].(int64)) })
	return reply(http.StatusOK, map[string]any{"metadata": map[string]any{}, "timestamp": newest, "changes": changes})
}
