package together

import (
	"errors"
	"testing"
)

func TestDo(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	later := make(chan struct{})
	err := Do(3, func(i int) error {
		switch i {
		case 1:
			<-later // call 1 fails after call 2
			return first
		case 2:
			defer close(later)
			return second
		}
		return nil
	})
	if err != first {
		t.Errorf("%v, want the error for the lowest number", err)
	}
	if err := Do(0, nil); err != nil {
		t.Error(err)
	}
}
