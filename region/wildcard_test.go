package region

import "testing"

func TestWildcardsMatchAsInEC2(t *testing.T) {
	for _, c := range []struct {
		pattern, value string
		want           bool
	}{
		{"m5.*", "m5.large", true},
		{"m5.*", "m5a.large", false},
		{"*.metal*", "c5.metal-24xl", true},
		{"m?.large", "m5.large", true},
		{"m?.large", "m5a.large", false},
		{`a\*b`, "a*b", true},
		{`a\*b`, "axb", false},
		{"*", "", true},
		{"", "", true},
		{"", "x", false},
		{"*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
		{"**x", "x", true},
		{"x**", "x", true},
	} {
		if got := Like(c.pattern, c.value); got != c.want {
			t.Errorf("Like(%q, %q) = %v", c.pattern, c.value, got)
		}
	}
}
