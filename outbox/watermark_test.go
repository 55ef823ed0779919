package outbox

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestMark simulates transactions that draw ids and end in any order, and a runner that updates the
// watermark from time to time, and takes rows or uses rows that were read ahead. No row may appear
// below the watermark, and each row must be taken once.
func TestMark(t *testing.T) {
	for seed := range uint64(300) {
		s := watermarkSimulation{T: t, rng: rand.New(rand.NewPCG(seed, 1)), seed: seed, taken: map[int64]bool{}}
		for range 400 {
			switch s.rng.IntN(4) {
			case 0:
				s.names++
				s.open = append(s.open, transaction{name: fmt.Sprint(s.names)})
			case 1:
				s.draw()
			case 2:
				s.end()
			default:
				s.move()
			}
		}
		if len(s.open) == 0 && s.watermark.from == 0 {
			t.Errorf("seed %d: the mark never moved", seed)
		}
	}
}

type transaction struct {
	name string
	ids  []int64
}

type watermarkSimulation struct {
	*testing.T
	rng       *rand.Rand
	seed      uint64
	open      []transaction
	names     int
	drawn     int64
	visible   []int64
	taken     map[int64]bool
	watermark watermark
	ahead     *rows
}

func (s *watermarkSimulation) draw() {
	if len(s.open) > 0 {
		s.drawn++
		n := s.rng.IntN(len(s.open))
		s.open[n].ids = append(s.open[n].ids, s.drawn)
	}
}

func (s *watermarkSimulation) end() {
	if len(s.open) == 0 {
		return
	}
	n := s.rng.IntN(len(s.open))
	for _, id := range s.open[n].ids {
		if id < s.watermark.from {
			s.Fatalf("seed %d: row %d appears below the mark %d", s.seed, id, s.watermark.from)
		}
		s.visible = append(s.visible, id)
	}
	s.open = append(s.open[:n], s.open[n+1:]...)
}

func (s *watermarkSimulation) move() {
	// Between the two statements of an update, transactions may draw ids, begin or end.
	before := s.drawn
	if s.rng.IntN(2) == 0 {
		s.draw()
	}
	var holders []string
	for _, o := range s.open {
		holders = append(holders, o.name)
	}
	s.watermark.observe(before, holders)
	now := s.ahead
	if s.ahead = nil; now == nil {
		now = s.take(s.watermark, nil)
	}
	for _, id := range now.ids {
		if s.taken[id] {
			s.Fatalf("seed %d: row %d is taken twice", s.seed, id)
		}
		s.taken[id] = true
	}
	after := s.watermark
	after.advance(*now)
	if s.rng.IntN(2) == 0 {
		s.ahead = s.take(after, now.ids)
	}
	s.watermark = after
	for _, id := range s.visible {
		if id < s.watermark.from && !s.taken[id] {
			s.Fatalf("seed %d: row %d is below the mark %d and was not taken", s.seed, id, s.watermark.from)
		}
	}
}

// take simulates Config.take.
func (s *watermarkSimulation) take(m watermark, except []int64) *rows {
	last := int64(math.MaxInt64 - 1)
	if s.rng.IntN(2) == 0 { // a full batch
		last = s.rng.Int64N(s.drawn + 1)
	}
	r := &rows{passed: min(m.settled, last) + 1}
	for _, id := range s.visible {
		if id >= m.from && id <= last && !slices.Contains(except, id) && !s.taken[id] {
			r.ids = append(r.ids, id)
		}
	}
	return r
}

// Without open transactions, the watermark is at the last id immediately.
func TestMarkMoves(t *testing.T) {
	var m watermark
	m.observe(10, nil)
	m.advance(rows{passed: m.settled + 1})
	if m.from != 11 {
		t.Errorf("mark is %d", m.from)
	}
	m.observe(20, []string{"a"})
	m.observe(30, []string{"a", "b"})
	m.advance(rows{passed: m.settled + 1})
	if m.from != 11 {
		t.Errorf("mark is %d although an open transaction may have drawn earlier ids", m.from)
	}
	m.observe(40, []string{"b"})
	m.advance(rows{passed: m.settled + 1})
	if m.from != 21 {
		t.Errorf("mark is %d", m.from)
	}
}

// A prepared transaction may get another name when the server is restarted.
func TestMarkRenamed(t *testing.T) {
	var m watermark
	m.observe(10, []string{"3/7"})
	m.observe(20, []string{"-1/7"})
	if m.settled != 0 {
		t.Errorf("settled is %d although an open transaction may have drawn earlier ids", m.settled)
	}
	m.observe(30, []string{"-1/7"})
	m.observe(30, nil)
	if m.settled != 30 {
		t.Errorf("settled is %d", m.settled)
	}
}
