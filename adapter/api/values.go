package api

// MaxValues is how many JSON values a request, or the content of a tool's
// result, may hold. Bytes alone are no limit: a message takes three of them,
// "{},", and some hundreds once it is decoded, so that one body of 64 MiB took
// 14 GB of memory.
const MaxValues = 500_000

// tooMany is the fault of a body with more values. It counts the commas and
// the opened lists and objects outside of strings, and leaves it to the
// decoder to find out whether the body is JSON at all.
func tooMany(field string, body []byte) error {
	n, quoted := 1, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == ',', c == '[', c == '{':
			n++
		}
	}
	if n > MaxValues {
		return fieldErr(field, "has more than %d JSON values", MaxValues)
	}
	return nil
}
