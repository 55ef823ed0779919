package credential

import (
	"fmt"
	"strings"
	"testing"
)

func TestReadLimited(t *testing.T) {
	valid := func(name string) bool { return name == "shop" || name == "bills" }
	for _, test := range []struct{ text, want, err string }{
		{"basic ann:namespace=shop", "[{{ann namespace=shop } []}]", ""},
		{"namespace=shop basic ann:a b", "[{{ann a b } [shop]}]", ""},
		{"bearer t\n# namespace=x\nnamespace=shop,bills   bearer u\r\n", "[{{  t} []} {{  u} [shop bills]}]", ""},
		{"namespace=shop,Hunter2 bearer t", "", "line 1: want namespace=NAME"},
		{"namespace= bearer hunter2", "", "line 1: want namespace=NAME"},
		{"namespace=shop, bills bearer hunter2", "", "line 1: want namespace=NAME"},
		{"namespace=shop", "", "line 1: want basic USER:PASSWORD or bearer TOKEN"},
		{"namespace=shop hunter2", "", "line 1: want basic USER:PASSWORD or bearer TOKEN"},
		{"bearer hunter2 namespace=shop", "", "line 1: want bearer TOKEN"},
		{"\nshop bearer hunter2", "", "line 2: want basic USER:PASSWORD or bearer TOKEN"},
		{"# namespace=shop bearer t", "", "is empty"},
	} {
		t.Setenv("FEEDCTL_CREDENTIALS", test.text)
		got, err := Source{Variable: "FEEDCTL_CREDENTIALS"}.ReadLimited(valid)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(strings.ToLower(err.Error()), "hunter2") {
				t.Errorf("%q: %v, want %q", test.text, err, test.err)
			}
			continue
		}
		if text := fmt.Sprint(got); text != test.want || err != nil {
			t.Errorf("%q: %s, %v; want %s", test.text, text, err, test.want)
		}
	}
	// A reader that does not support namespaces does not take a limited credential for an unlimited one.
	t.Setenv("FEEDCTL_CREDENTIALS", "namespace=shop bearer t")
	if got, err := (Source{Variable: "FEEDCTL_CREDENTIALS"}).ReadAll(); err == nil {
		t.Errorf("got %v", got)
	}
}
