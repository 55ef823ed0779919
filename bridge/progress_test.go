package bridge

import (
	"reflect"
	"testing"
	"time"
)

// TestProgressAfter: the counts of a second bridge continue those of the first.
func TestProgressAfter(t *testing.T) {
	var now, earlier, want Progress
	for n, field := range reflect.VisibleFields(reflect.TypeFor[Progress]()) {
		if field.Type.Kind() != reflect.Int64 {
			continue
		}
		reflect.ValueOf(&now).Elem().Field(n).SetInt(int64(n))
		reflect.ValueOf(&earlier).Elem().Field(n).SetInt(100)
		reflect.ValueOf(&want).Elem().Field(n).SetInt(100 + int64(n))
	}
	want.Pending = now.Pending // not a count
	earlier.LastPoll, earlier.LastPublish, now.LastPoll = time.Unix(1, 0), time.Unix(2, 0), time.Unix(3, 0)
	want.LastPoll, want.LastPublish = now.LastPoll, earlier.LastPublish
	if got := now.After(earlier); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
