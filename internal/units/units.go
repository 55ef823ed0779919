// Package units provides flags for sizes and times with units.
package units

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// SizeVar adds a flag for a number of bytes: 1048576, 64KiB or 1MB.
func SizeVar(flags *pflag.FlagSet, p *int64, name string, value int64, usage string) {
	*p = value
	flags.Var((*size)(p), name, usage)
}

// DurationVar adds a flag for a time: 90s, 4h30m or 7d.
func DurationVar(flags *pflag.FlagSet, p *time.Duration, name string, value time.Duration, usage string) {
	*p = value
	flags.Var((*Duration)(p), name, usage)
}

// A size is the value of a flag for a number of bytes.
type size int64

// units holds the units of a size, in bytes: those of IEC 80000-13, and the powers of ten of SI.
var units = map[string]float64{
	"": 1, "b": 1,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}

var sizeForm = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)$`)

// Set implements [pflag.Value].
func (s *size) Set(text string) error {
	m := sizeForm.FindStringSubmatch(text)
	if m == nil {
		return errors.New("is not a size: want bytes, such as 1048576, 64KiB or 1MB")
	}
	unit, ok := units[strings.ToLower(m[2])]
	if !ok {
		return fmt.Errorf("has an unknown unit %q: want B, KB, MB, GB, TB, KiB, MiB, GiB or TiB", m[2])
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		*s = size(n)
		return nil
	}
	number, err := strconv.ParseFloat(m[1], 64)
	if number *= unit; err != nil || number >= math.MaxInt64 {
		return errors.New("is too large")
	}
	*s = size(number)
	return nil
}

// String implements [pflag.Value].
func (s *size) String() string {
	for _, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if n := int64(units[strings.ToLower(unit)]); *s != 0 && int64(*s)%n == 0 {
			return fmt.Sprintf("%d%s", int64(*s)/n, unit)
		}
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Type implements [pflag.Value].
func (s *size) Type() string { return "size" }

// A Duration is the value of a flag for a time, in the form of [time.ParseDuration], optionally preceded by weeks and
// days.
type Duration time.Duration

const day = 24 * time.Hour

var days = regexp.MustCompile(`^(?:([0-9]{1,4})w)?(?:([0-9]{1,6})d)?(.*)$`)

// Set implements [pflag.Value].
func (d *Duration) Set(text string) error {
	m := days.FindStringSubmatch(text)
	total := time.Duration(0)
	for i, unit := range []time.Duration{7 * day, day} {
		if n, err := strconv.Atoi(m[i+1]); err == nil {
			total += time.Duration(n) * unit
		}
	}
	if m[3] != "" || text == "" {
		rest, err := time.ParseDuration(m[3])
		if err != nil || total > 0 && rest < 0 || total+rest < total && rest > 0 {
			return errors.New("is not a duration: want a number and a unit, such as 90s, 4h30m or 7d")
		}
		total += rest
	}
	*d = Duration(total)
	return nil
}

// String implements [pflag.Value].
func (d *Duration) String() string {
	if *d == 0 {
		return "0" // pflag does not show this as a default
	}
	text := time.Duration(*d).String()
	if time.Duration(*d)%time.Minute == 0 {
		text = strings.TrimSuffix(text, "0s")
	}
	if time.Duration(*d)%time.Hour == 0 {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Type implements [pflag.Value].
func (d *Duration) Type() string { return "duration" }
