package feed

import (
	"context"
	"net/textproto"
	"slices"
	"strings"
)

// These header fields of an entity hold its trace context, as in an HTTP request.
const (
	traceParent = "Traceparent"
	traceState  = "Tracestate"
)

// maxTraceState limits [Trace.State], in bytes, to the length that the recommendation requires to be
// propagated.
const maxTraceState = 512

// A Trace says in which trace an entity was published, and where in that trace. It holds the values of the
// header fields of W3C Trace Context (https://www.w3.org/TR/trace-context/). The zero Trace means that there
// is no trace context.
type Trace struct {
	Parent string // traceparent
	State  string // tracestate; may be empty
}

// ParseTrace returns the trace context given by the values of the two header fields, or the zero Trace if
// parent is not valid, as the recommendation requires. A state that is not valid, or longer than 512 bytes,
// is left out.
func ParseTrace(parent, state string) Trace {
	if !validParent(parent) {
		return Trace{}
	}
	if len(state) > maxTraceState || checkValue(traceState, state) != nil {
		state = ""
	}
	return Trace{Parent: parent, State: state}
}

// IsZero reports whether there is no trace context.
func (t Trace) IsZero() bool { return t.Parent == "" }

// Sampled reports whether the publisher recorded its part of the trace.
func (t Trace) Sampled() bool {
	const flags = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0")
	return len(t.Parent) > flags && strings.IndexByte("13579bdf", t.Parent[flags]) >= 0
}

// validParent reports whether a traceparent is valid. It must consist of version, trace-id, parent-id and
// flags in lower-case hex; if the version is later than 00, more may follow.
func validParent(p string) bool {
	const size = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if len(p) < size || len(p) > 2*size {
		return false
	}
	version, id, parent, flags := p[:2], p[3:35], p[36:52], p[53:55]
	switch {
	case p[2] != '-' || p[35] != '-' || p[52] != '-',
		!isHex(version) || !isHex(id) || !isHex(parent) || !isHex(flags),
		version == "ff", allZero(id), allZero(parent):
		return false
	case len(p) == size:
		return true
	}
	return version != "00" && p[size] == '-' && checkURI(traceParent, p) == nil
}

func isHex(s string) bool   { return strings.Trim(s, "0123456789abcdef") == "" }
func allZero(s string) bool { return strings.Trim(s, "0") == "" }

// Trace returns the trace context in which e was published, or the zero Trace.
func (e *Entity) Trace() Trace {
	var t Trace
	for _, f := range e.Header {
		switch {
		case strings.EqualFold(f.Name, traceParent):
			t.Parent = f.Value
		case strings.EqualFold(f.Name, traceState):
			t.State = f.Value
		}
	}
	if t.Parent == "" {
		return Trace{}
	}
	return ParseTrace(t.Parent, t.State)
}

// SetTrace adds the header fields of a trace context to an entity that has none, if the entity's header does
// not become larger than [MaxHeader].
func (e *Entity) SetTrace(t Trace) {
	if t.IsZero() || slices.ContainsFunc(e.Header, func(f Field) bool { return strings.EqualFold(f.Name, traceParent) }) {
		return
	}
	added := []Field{{traceParent, t.Parent}}
	if t.State != "" {
		added = append(added, Field{traceState, t.State})
	}
	_, size := e.HeaderSize()
	for _, f := range added {
		size += len(f.Name) + len(f.Value)
	}
	if size <= MaxHeader {
		e.Header = append(slices.Clip(e.Header), added...)
	}
}

type traceKey struct{}

// ContextWithTrace returns a context for publishing in a trace: package producer adds the trace to entities
// that have none. If t is the zero Trace, it returns ctx.
func ContextWithTrace(ctx context.Context, t Trace) context.Context {
	if t.IsZero() {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceOfContext returns the trace that [ContextWithTrace] has added to ctx, or the zero Trace.
func TraceOfContext(ctx context.Context) Trace {
	t, _ := ctx.Value(traceKey{}).(Trace)
	return t
}

// TraceOfHeader returns the trace context of a request, or the zero Trace.
func TraceOfHeader(header map[string][]string) Trace {
	h := textproto.MIMEHeader(header)
	if parents := h.Values(traceParent); len(parents) == 1 {
		return ParseTrace(parents[0], strings.Join(h.Values(traceState), ","))
	}
	return Trace{}
}

// maxTraces limits [Traces].
const maxTraces = 64

// Traces collects the trace contexts of entities that are written together: the distinct ones that
// are sampled, up to 64. The zero value is empty.
type Traces []Trace

// Add adds the trace context of e.
func (ts *Traces) Add(e *Entity) {
	if len(e.Header) == 0 || len(*ts) == maxTraces {
		return
	}
	if t := e.Trace(); t.Sampled() && !slices.Contains(*ts, t) {
		*ts = append(*ts, t)
	}
}
