package console

// States are shown as words; a shape and a tone help people to spot them. Tones are classes in the style
// sheet.

// shape returns a character that stands before a state, so that states differ in more than their colour.
func shape(state string) string {
	switch tone(state) {
	case "good":
		return "●"
	case "busy":
		return "▶"
	case "warn":
		return "▲"
	case "bad":
		return "✖"
	}
	return "○"
}

// tone returns what a state means to a person: good, busy, warn, bad or calm.
func tone(state string) string {
	switch state {
	case "active", "alive", "up", "done", "completed", "waiting for more":
		return "good"
	case "running", "reading":
		return "busy"
	case "crashing", "waits", "cancelled", "found problems":
		return "warn"
	case "damaged", "failed", "failing", "down", "lost":
		return "bad"
	}
	return "calm"
}
