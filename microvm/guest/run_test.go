package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/microvm/wire"
)

// A volume mounted below another one is seen, whatever the order in which the pod names them.
func TestADirectoryIsMountedBeforeWhatIsBelowIt(t *testing.T) {
	spec := wire.Container{Name: "c", Kind: wire.KindRegular, Mounts: []wire.Mount{
		{Volume: "a", Path: "/srv/data/deep"},
		{Volume: "b", Path: "/srv/data/"},
		{Volume: "b", Path: "/var"},
		{Volume: "a", Path: "/srv"},
		{Volume: "b", Path: "/etc"},
	}}
	p := newPod(wire.Pod{
		Volumes: []wire.Volume{{Name: "a"}, {Name: "b"}}, Containers: []wire.Container{spec},
	}, nil, nil)
	e, err := (&run{c: p.containers[0], spec: spec}).entry()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range e.Mounts {
		got = append(got, m.Target)
	}
	want := []string{
		"/var", "/srv", "/etc", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/machine-id", "/srv/data/",
		"/srv/data/deep",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// As with a kubelet, a termination message is the end of its file or, of a log, its last lines and bytes.
func TestATerminationMessageIsTheEnd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "message")
	if err := os.WriteFile(file, []byte("head"+strings.Repeat("x", 4091)+"end"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := string(endOf(file, 4096)); len(got) != 4096 || !strings.HasPrefix(got, "adx") {
		t.Errorf("%d bytes, from %.10q", len(got), got)
	}
	if got := endOf(file, 1<<20); len(got) != 4098 {
		t.Errorf("%d bytes of a short file", len(got))
	}
	long := strings.Repeat("x", 99) + "\n"
	for what, c := range map[string]struct{ line, rest, want string }{
		"short lines":   {"line\n", "", strings.Repeat("line\n", 80)},
		"an open line":  {"line\n", "open", strings.Repeat("line\n", 79) + "open"},
		"long lines":    {long, "", long[52:] + strings.Repeat(long, 20)},
		"an empty line": {"\n", "", strings.Repeat("\n", 80)},
	} {
		var b broadcast
		for range 200 {
			_, _ = fmt.Fprint(b.channel(wire.Stdout), c.line)
		}
		_, _ = fmt.Fprint(b.channel(wire.Stderr), c.rest)
		if got := string(b.end()); got != c.want {
			t.Errorf("%s: %d bytes %q", what, len(got), got)
		}
	}
}
