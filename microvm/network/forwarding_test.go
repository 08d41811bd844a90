package network

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// proc returns a kernel whose /proc contains these files.
func proc(t *testing.T, files map[string]string) kernel {
	t.Helper()
	k := kernel{t.TempDir()}
	for name, content := range files {
		path := filepath.Join(k.proc, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

const routes = `Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	010011AC	0003	0	0	0	00000000	0	0	0
eth0	000011AC	00000000	0001	0	0	0	0000FFFF	0	0	0
tun0	0000A8C0	00000000	0001	0	0	0	0000FFFF	0	0	0
nl0a1b2c3d-12	0200CA0A	00000000	0005	0	0	0	FFFFFFFF	0	0	0
nl0a1b2c3d-10fa	FA10CA0A	00000000	0005	0	0	0	FFFFFFFF	0	0	0
nl0a1b2c3d-x	0020CA0A	0120CA0A	0003	0	0	0	00F0FFFF	0	0	0
nl0a1b2c3d	0000CA0A	00000000	0001	0	0	0	0000F0FF	0	0	0
`

func TestPacketsLeaveWhereRoutesLead(t *testing.T) {
	got, err := proc(t, map[string]string{"net/route": routes}).uplinks()
	if err != nil || strings.Join(got, " ") != "eth0 tun0" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestForwardingIsTakenBack(t *testing.T) {
	for what, c := range map[string]struct{ all, left string }{
		"we alone wanted it":            {"0", "0"},
		"somebody else wants all of it": {"1", "1"},
	} {
		k := proc(t, map[string]string{"sys/net/ipv4/ip_forward": c.all + "\n", "sys/net/ipv4/conf/eth0/forwarding": "1\n"})
		if err := k.stopForwarding([]string{"eth0", "gone0"}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if b, _ := os.ReadFile(k.setting(forwardingOf("eth0"))); strings.TrimSpace(string(b)) != c.left {
			t.Errorf("%s: eth0 is left at %q", what, b)
		}
	}
}

func TestStateIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if s, err := loadState(dir); err != nil || s.Table != "" {
		t.Errorf("at first: %+v, %v", s, err)
	}
	if err := (state{Table: "nl0a1b2c3d", Opened: []string{"eth0"}}).save(dir); err != nil {
		t.Fatal(err)
	}
	if s, err := loadState(dir); err != nil || s.Table != "nl0a1b2c3d" || s.Opened[0] != "eth0" {
		t.Errorf("kept: %+v, %v", s, err)
	}
	if err := os.WriteFile(stateFile(dir), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loadState(dir); err == nil || !strings.Contains(err.Error(), stateFile(dir)) {
		t.Error("damaged:", err)
	}
	for range 2 {
		if err := forgetState(dir); err != nil {
			t.Error(err)
		}
	}
}
