package reconcile_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/reconcile"
)

// TestAhead: for a sink that is ahead of the digest, the comparison includes what the feed has in between.
func TestAhead(t *testing.T) {
	w := newWorld(t)
	w.publish(2000)
	d, _ := w.digest()
	patch := &feed.Entity{Operation: feed.Patch, ContentLocation: feed.EncodeKey(key(3)), ContentType: "application/merge-patch+json", Body: []byte(`{"m":1}`)}
	w.send(w.put(key(1), `{"new":1}`), w.put("other", `{}`), w.remove(key(2)), patch, w.put(key(4), `{"new":4}`), w.remove(key(5)), w.put(key(6), `{"new":6}`), patchOf(key(7)))
	w.bodies[key(3)] = `{"n":3,"m":1}`
	w.consume()

	c := w.config(d)
	got := lines(&c)
	report, err := w.run(c, false)
	if err != nil || len(*got) > 0 || report.Between != 8 || report.Equal != 1999 || report.ByContentID != 2 {
		t.Errorf("found %q, %v, report %+v", *got, err, report)
	}

	w.sql("UPDATE zones SET body = '{\"new\":0}' WHERE key = ?1", key(4))                         // changed after the digest
	w.sql("INSERT INTO zones VALUES (?1, 'application/json', '', '', '{}', '{\"n\":5}')", key(5)) // deleted after the digest
	w.sql("DELETE FROM zones WHERE key = 'other'")                                                // added after the digest
	w.sql("UPDATE zones SET body = '{\"n\":6}', content_id = 'old' WHERE key = ?1", key(6))       // as in the digest
	w.sql("UPDATE zones SET content_id = 'old' WHERE key = ?1", key(7))                           // patched
	w.sql("UPDATE zones SET body = '{}' WHERE key = ?1", key(8))                                  // not in between
	*got = nil
	if _, err = w.run(c, false); err != nil {
		t.Fatal(err)
	}
	want := []string{"* " + key(4), "- " + key(5), "* " + key(6), "* " + key(7), "* " + key(8), "+ other"}
	if !slices.Equal(*got, want) {
		t.Errorf("found %q, want %q", *got, want)
	}
	// The result of the patch is not in a digest yet.
	*got = nil
	report, err = w.run(c, true)
	if err != nil || report.Repair.Lost != 1 || report.Repair.Written != 4 || report.Repair.Deleted != 1 || report.Remaining() != 1 {
		t.Errorf("repair: %v, %+v", err, report.Repair)
	}
	if !slices.Contains(*got, "! "+key(7)) {
		t.Errorf("repair found %q", *got)
	}
}

func patchOf(key string) *feed.Entity {
	return &feed.Entity{Operation: feed.Patch, ContentLocation: feed.EncodeKey(key), ContentType: "application/merge-patch+json", Body: []byte(`{"p":1}`)}
}

// TestBehind: a sink is not compared if it is behind the digest, if the feed does not have its
// position, or if it has no position yet.
func TestBehind(t *testing.T) {
	w := newWorld(t)
	w.publish(10)
	w.consume()
	w.send(w.put("later", "{}"))
	d, _ := w.digest()
	if _, err := w.run(w.config(d), false); !errors.Is(err, reconcile.ErrBehind) {
		t.Errorf("%v, want ErrBehind", err)
	}
	w.consume()
	if _, err := w.run(w.config(d), false); err != nil {
		t.Error(err)
	}
	w.sql(`UPDATE feedctl_positions SET position = json_set(position, '$.contentId', '<other>', '$.lastModified', '2099-01-01T00:00:00Z')`)
	if _, err := w.run(w.config(d), false); !errors.Is(err, reconcile.ErrGone) {
		t.Errorf("%v, want ErrGone", err)
	}
	w.sql(`UPDATE feedctl_positions SET position = '{}'`)
	if _, err := w.run(w.config(d), false); !errors.Is(err, reconcile.ErrFilling) {
		t.Errorf("%v, want ErrFilling", err)
	}
}

// TestPrefix: only keys with the prefix are compared and repaired.
func TestPrefix(t *testing.T) {
	w := newWorld(t)
	w.publish(3000)
	w.send(w.put("\xff\xff", "{}"), w.put("\xff\xffz", "{}"))
	w.consume()
	d, read := w.digest()
	equal := w.config(d)
	equal.Prefix = "key/000"
	if report, err := w.run(equal, false); err != nil || report.Equal != 3000 || read.reads > 3 {
		t.Errorf("%v, %+v, %d nodes and leaves were read", err, report, read.reads)
	}
	w.sql("UPDATE zones SET body = 'x'")
	for _, test := range []struct {
		prefix string
		want   int
	}{{"key/0001", 1000}, {"key/0001234", 1}, {"\xff", 2}, {"\xff\xffz", 1}, {"absent", 0}, {"", 3002}} {
		c := w.config(d)
		c.Prefix = test.prefix
		got := lines(&c)
		report, err := w.run(c, false)
		if err != nil || len(*got) != test.want || report.Rows != int64(test.want) {
			t.Errorf("prefix %q: %d lines, %v, want %d; %+v", test.prefix, len(*got), err, test.want, report)
		}
		for _, line := range *got {
			if !strings.HasPrefix(line[2:], test.prefix) {
				t.Errorf("prefix %q: %q", test.prefix, line)
			}
		}
	}
	c := w.config(d)
	c.Prefix = "key/0001"
	if report, err := w.run(c, true); err != nil || report.Repair.Written != 1000 || report.Remaining() != 0 {
		t.Errorf("%v, %+v", err, report)
	}
	c.Prefix = ""
	if report, err := w.run(c, false); err != nil || report.Changed != 2002 {
		t.Errorf("%v, %+v", err, report)
	}
}
