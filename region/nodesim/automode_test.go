package nodesim

import "testing"

// Nodes of EKS Auto Mode are named after their instance's ID, other Bottlerocket nodes after its DNS name.
func TestANodeIsNamedAsItsUserDataSay(t *testing.T) {
	const settings = "[settings.kubernetes]\ncluster-name = \"c\"\nmax-pods = 110\n"
	for data, want := range map[string]struct{ name, image string }{
		settings + "hostname-override-source = \"instance-id\"\n":      {"i-1", "Bottlerocket (EKS Auto) (simulated)"},
		settings + "hostname-override-source = \"private-dns-name\"\n": {"ip-1", "Bottlerocket OS (simulated)"},
		settings: {"ip-1", "Bottlerocket OS (simulated)"},
	} {
		k, err := parseUserData([]byte(data))
		if got := NodeName([]byte(data), "ip-1", "i-1"); err != nil || got != want.name || k.osImage() != want.image {
			t.Errorf("%q: named %s, runs %s, %v", data, got, k.osImage(), err)
		}
	}
	if got := NodeName([]byte("#!/bin/sh"), "ip-1", "i-1"); got != "ip-1" {
		t.Errorf("without settings it is named %s", got)
	}
}
