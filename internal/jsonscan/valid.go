package jsonscan

// Valid reports whether b is one JSON text. It does the same as json.Valid, several times as fast.
func Valid(b []byte) bool {
	end := skipValue(b, skipSpace(b, 0))
	return end >= 0 && skipSpace(b, end) == len(b)
}

// skipValue returns the index after the value that begins at b[i], or -1 if no valid value begins there.
// Unlike with value.scan, b must hold the whole value.
func skipValue(b []byte, i int) int {
	var few [64]byte
	stack := few[:0] // of '[' and '{'
	for {
		if i >= len(b) {
			return -1
		}
		switch c := b[i]; c {
		case '{', '[':
			if len(stack) == maxDepth {
				return -1
			}
			if i = skipSpace(b, i+1); i < len(b) && b[i] == c+2 { // in ASCII, '}' and ']' are two after '{' and '['
				i++
				break
			}
			stack = append(stack, c)
			if c == '{' {
				i = skipName(b, i)
			}
			if i < 0 {
				return -1
			}
			continue
		case '"':
			i = skipString(b, i)
		case 't':
			i = skipLiteral(b, i, "true")
		case 'f':
			i = skipLiteral(b, i, "false")
		case 'n':
			i = skipLiteral(b, i, "null")
		default:
			i = skipNumber(b, i)
		}
		for { // after a value
			if i < 0 || len(stack) == 0 {
				return i
			}
			if i = skipSpace(b, i); i == len(b) {
				return -1
			}
			inside := stack[len(stack)-1]
			if b[i] != inside+2 {
				if b[i] != ',' {
					return -1
				}
				if i = skipSpace(b, i+1); inside == '{' {
					i = skipName(b, i)
				}
				if i < 0 {
					return -1
				}
				break
			}
			stack = stack[:len(stack)-1]
			i++
		}
	}
}

// skipName skips the name of a member at b[i], the colon, and the white space after them.
func skipName(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	if i = skipString(b, i); i < 0 {
		return -1
	}
	if i = skipSpace(b, i); i == len(b) || b[i] != ':' {
		return -1
	}
	return skipSpace(b, i+1)
}

// skipString skips the string at b[i], which is a quote.
func skipString(b []byte, i int) int {
	for i++; ; {
		if i += plain(b[i:]); i >= len(b) {
			return -1
		}
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			if i = skipEscape(b, i); i < 0 {
				return -1
			}
		default: // a control character
			return -1
		}
	}
}

// skipEscape skips the escape at b[i], which is a backslash.
func skipEscape(b []byte, i int) int {
	if i+1 >= len(b) {
		return -1
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		end := i + len(`\u0000`)
		if end > len(b) {
			return -1
		}
		for _, c := range b[i+2 : end] {
			if !isHex(c) {
				return -1
			}
		}
		return end
	}
	return -1
}

func skipLiteral(b []byte, i int, literal string) int {
	end := i + len(literal)
	if end > len(b) || string(b[i:end]) != literal {
		return -1
	}
	return end
}

// skipNumber skips the number at b[i].
func skipNumber(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	integer := i
	if i = skipDigits(b, i); i == integer || b[integer] == '0' && i > integer+1 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		fraction := i + 1
		if i = skipDigits(b, fraction); i == fraction {
			return -1
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		exponent := i + 1
		if exponent < len(b) && (b[exponent] == '+' || b[exponent] == '-') {
			exponent++
		}
		if i = skipDigits(b, exponent); i == exponent {
			return -1
		}
	}
	return i
}

func skipDigits(b []byte, i int) int {
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	return i
}
