package progress

import (
	"strings"
	"testing"
	"time"
)

func TestPlainLinesTellEachStepOnce(t *testing.T) {
	var out strings.Builder
	p := Plain(&out)
	now := time.Unix(0, 0)
	p.now = func() time.Time { return now }
	p.Begin("Control plane")
	now = now.Add(2500 * time.Millisecond)
	p.Done("v1.36.2")
	p.Begin("Region %s", "us-west-2")
	p.Fail()
	p.Status("3 pods")
	p.EndStatus()
	want := " ✓ Control plane: v1.36.2  2.5s\n ✗ Region us-west-2  0.0s\n3 pods\n"
	if out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

func TestLongLinesBreakBetweenWords(t *testing.T) {
	got := wrap("  + m5.large for two pods; next best m6i.large", 24)
	want := "  + m5.large for two\n      pods; next best\n      m6i.large"
	if got != want {
		t.Errorf("wrapped to %q, want %q", got, want)
	}
	if got := wrap("a short line", 24); got != "a short line" {
		t.Errorf("a short line became %q", got)
	}
	p := Plain(nil)
	p.width = func() int { return 10 }
	if got := p.cut("0123456789abc", 0); got != "01234567…" {
		t.Errorf("cut to %q", got)
	}
}
