package spec

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Int is a whole number of 32 bits, which ProtoJSON may also write as text.
type Int int32

// UnmarshalJSON implements json.Unmarshaler.
func (i *Int) UnmarshalJSON(b []byte) error {
	s := strings.Trim(string(b), `"`)
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != math.Trunc(f) || f < math.MinInt32 || f > math.MaxInt32 {
		return fmt.Errorf("%s is no whole number of 32 bits", b)
	}
	*i = Int(f)
	return nil
}

// Base64 is bytes as standard base64 with padding. Reading takes every usual
// spelling.
type Base64 string

// UnmarshalJSON implements json.Unmarshaler.
func (v *Base64) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("raw: %w", err)
	}
	s = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/", "\n", "", "\r", "").Replace(s), "=")
	raw, err := base64.RawStdEncoding.DecodeString(s)
	if err != nil {
		return fmt.Errorf("raw: not base64: %w", err)
	}
	*v = Base64(base64.StdEncoding.EncodeToString(raw))
	return nil
}

// UnmarshalJSON implements json.Unmarshaler: a name, or its number.
func (r *Role) UnmarshalJSON(b []byte) error {
	name, err := enum(b, []string{"ROLE_UNSPECIFIED", string(RoleUser), string(RoleAgent)})
	*r = Role(name)
	return err
}

// UnmarshalJSON implements json.Unmarshaler: a name, or its number.
func (s *TaskState) UnmarshalJSON(b []byte) error {
	name, err := enum(b, stateNames)
	*s = TaskState(name)
	return err
}

// stateNames are in the order of their numbers in the specification.
var stateNames = []string{
	string(StateUnspecified), string(StateSubmitted), string(StateWorking), string(StateCompleted), string(StateFailed),
	string(StateCanceled), string(StateInputRequired), string(StateRejected), string(StateAuthRequired),
}

// ParseState reads the name of a state.
func ParseState(s string) (TaskState, error) {
	name, err := enum([]byte(strconv.Quote(s)), stateNames)
	return TaskState(name), err
}

func enum(b []byte, names []string) (string, error) {
	b = bytes.TrimSpace(b)
	if n, err := strconv.Atoi(string(b)); err == nil {
		if n < 0 || n >= len(names) {
			return "", fmt.Errorf("%d is none of the %d values", n, len(names))
		}
		return names[n], nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return "", fmt.Errorf("%s is neither a name nor a number", b)
	}
	if s == "" {
		return "", nil
	}
	for _, n := range names {
		if n == s {
			return s, nil
		}
	}
	return "", fmt.Errorf("%q is none of %s", s, strings.Join(names, ", "))
}
