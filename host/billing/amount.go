package billing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Amount is an exact decimal number: dollars, a price, or a multiplier. The
// zero value is 0. It is read from a JSON string or number, digit by digit,
// never by way of a float, and written as a string.
type Amount struct{ r *big.Rat }

// limits of what is read: a table is written by people.
const (
	maxDigits   = 100
	maxExponent = 50
)

// Parse reads a decimal number like "0.04", "-1" or "3e-6".
func Parse(s string) (Amount, error) {
	mantissa, exp, hasExp := strings.Cut(strings.ToLower(s), "e")
	digits := strings.TrimLeft(mantissa, "+-")
	ok := len(mantissa)-len(digits) <= 1 && len(digits) <= maxDigits && strings.Trim(digits, "0123456789.") == "" &&
		strings.ContainsAny(digits, "0123456789") && strings.Count(digits, ".") <= 1
	if hasExp {
		n, err := strconv.Atoi(exp)
		ok = ok && err == nil && n >= -maxExponent && n <= maxExponent
	}
	if !ok {
		return Amount{}, fmt.Errorf("billing: %.40q is not a decimal number", s)
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return Amount{}, fmt.Errorf("billing: %.40q is not a decimal number", s)
	}
	return Amount{r}, nil
}

// Int makes an amount of a count.
func Int(n int64) Amount { return Amount{new(big.Rat).SetInt64(n)} }

// Float makes an amount of the shortest decimal that is the float: what was
// written 0.1 is 0.1. Infinities and NaN are 0.
func Float(f float64) Amount {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return Amount{}
	}
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	return Amount{r}
}

func (a Amount) rat() *big.Rat {
	if a.r == nil {
		return new(big.Rat)
	}
	return a.r
}

// Add gives a+b.
func (a Amount) Add(b Amount) Amount { return Amount{new(big.Rat).Add(a.rat(), b.rat())} }

// Mul gives a×b.
func (a Amount) Mul(b Amount) Amount { return Amount{new(big.Rat).Mul(a.rat(), b.rat())} }

var million = big.NewRat(1, 1_000_000)

// perMillion gives a/1,000,000.
func (a Amount) perMillion() Amount { return Amount{new(big.Rat).Mul(a.rat(), million)} }

// Cmp is negative, 0 or positive as a is less than, equal to or more than b.
func (a Amount) Cmp(b Amount) int { return a.rat().Cmp(b.rat()) }

// Sign is -1, 0 or 1.
func (a Amount) Sign() int { return a.rat().Sign() }

// String is every digit, without zeros that say nothing: "0.000345".
func (a Amount) String() string {
	n, _ := a.rat().FloatPrec()
	return a.rat().FloatString(n)
}

// Round is the amount with as many places after the point, halves away from
// zero: what a bill shows.
func (a Amount) Round(places int) string { return a.rat().FloatString(max(0, places)) }

// MarshalJSON gives a string.
func (a Amount) MarshalJSON() ([]byte, error) { return json.Marshal(a.String()) }

// UnmarshalJSON reads a string or a number.
func (a *Amount) UnmarshalJSON(raw []byte) (err error) {
	s := string(bytes.TrimSpace(raw))
	if strings.HasPrefix(s, `"`) {
		if err := json.Unmarshal(raw, &s); err != nil {
			return err
		}
	}
	*a, err = Parse(s)
	return err
}
