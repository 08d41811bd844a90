package simulate

import (
	"strings"
	"testing"
)

// A flag that another one would make void is refused.
func TestSimulateRefusesFlagsWithoutEffect(t *testing.T) {
	for _, c := range []struct {
		o    simulateOptions
		want string
	}{
		{simulateOptions{compare: true, output: "wide"}, "-o json"},
		{simulateOptions{compare: true, solver: "staged"}, "--solver"},
		{simulateOptions{check: true, output: "wide"}, "-o"},
		{simulateOptions{compare: true, output: "json"}, ""},
		{simulateOptions{compare: true}, ""},
		{simulateOptions{output: "wide"}, ""},
	} {
		if err := c.o.valid(); (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
	}
}
