package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/nodeless/nodeless/engine/reason"
)

// HoursPerMonth converts an hourly price to a monthly one.
const HoursPerMonth = 730

// Amount formats an amount of a resource briefly: in cores, in binary multiples of bytes, or as a number.
func Amount(name string, v int64) string {
	switch {
	case name == "cpu":
		return short(float64(v) / 1000)
	case name == "memory" || name == "ephemeral-storage" || strings.HasPrefix(name, "hugepages-"):
		f, unit := float64(v), 0
		for f >= 1024 && unit < len(units)-1 {
			f, unit = f/1024, unit+1
		}
		return short(f) + units[unit]
	}
	return strconv.FormatInt(v, 10)
}

var units = []string{"", "Ki", "Mi", "Gi", "Ti", "Pi"}

// short formats a number with at most one decimal.
func short(f float64) string {
	if f >= 100 || f == float64(int64(f)) {
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0")
}

// Quantity formats an amount as Kubernetes does.
func Quantity(name string, v int64) string {
	switch {
	case name == "cpu":
		return resource.NewMilliQuantity(v, resource.DecimalSI).String()
	case name == "memory" || name == "ephemeral-storage" || strings.HasPrefix(name, "hugepages-"):
		return resource.NewQuantity(v, resource.BinarySI).String()
	}
	return resource.NewQuantity(v, resource.DecimalSI).String()
}

// PerHour formats a price in millionths of a dollar an hour. Every view shows four decimals, which distinguish the
// cheapest types.
func PerHour(micros int64) string { return reason.Money(float64(micros)/1e6, 4) }

// PerMonth formats a price in millionths of a dollar an hour as a price per month, in whole dollars.
func PerMonth(micros int64) string { return reason.Money(float64(micros*HoursPerMonth)/1e6, 0) }

// Percent formats a share as a whole percentage.
func Percent(share float64) string { return fmt.Sprintf("%.0f%%", share*100) }

// Age formats how long ago something was, as kubectl does.
func Age(now, then time.Time) string {
	if then.IsZero() {
		return "-"
	}
	return duration.HumanDuration(max(0, now.Sub(then)))
}

// Escape makes text safe for a terminal: control and formatting characters, such as those that begin a terminal's
// commands or change the direction of writing, and bytes that are not text become visible escapes such as \x1b and
// \u202e. Zero-width joiners stay where emoji and words have them.
func Escape(text string) string {
	plain := true
	for i := 0; i < len(text) && plain; i++ {
		plain = text[i] >= ' ' && text[i] < 0x7f
	}
	if plain {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case !PrintableAt(text, i):
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Printable reports whether a character is visible and has no other effect.
func Printable(r rune) bool {
	return r == ' ' || unicode.IsGraphic(r) && !unicode.In(r, unicode.Zs, unicode.Co)
}

// PrintableAt reports whether the character at an index of a text is Printable, or a zero-width joiner or non-joiner
// between two printable characters that are not ASCII: emoji are made with one, and Persian and Indic words need them.
func PrintableAt(text string, i int) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	r, size := utf8.DecodeRuneInString(text[i:])
	if r != nonJoiner && r != joiner {
		return Printable(r)
	}
	before, _ := utf8.DecodeLastRuneInString(text[:i])
	after, _ := utf8.DecodeRuneInString(text[i+size:])
	return joinable(before) && joinable(after)
}

func joinable(r rune) bool { return r >= utf8.RuneSelf && r != utf8.RuneError && Printable(r) }
