package network

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestTheMachinesLinesForPods(t *testing.T) {
	machine := netip.MustParseAddr("10.202.0.1")
	for what, c := range map[string]struct{ file, want string }{
		"name servers elsewhere":      {"search corp.example\nnameserver 192.0.2.53\nnameserver 192.0.2.54\noptions edns0 trust-ad\n", "[192.0.2.53 192.0.2.54] [corp.example] [edns0 trust-ad]"},
		"one on loopback":             {"nameserver 127.0.0.53\noptions edns0\n", "[10.202.0.1] [] [edns0]"},
		"some that pods cannot ask":   {"nameserver 127.0.0.1\nnameserver ::1\nnameserver fd00::53\nnameserver 192.0.2.53\n", "[10.202.0.1 192.0.2.53] [] []"},
		"none: then it is loopback's": {"", "[10.202.0.1] [] []"},
	} {
		file := filepath.Join(t.TempDir(), "resolv.conf")
		if err := os.WriteFile(file, []byte(c.file), 0o600); err != nil {
			t.Fatal(err)
		}
		if l := hostResolvConf(file, machine); fmt.Sprint(l.Nameservers, l.Searches, l.Options) != c.want {
			t.Errorf("%s: %v %v %v, want %s", what, l.Nameservers, l.Searches, l.Options, c.want)
		}
	}
	if l := hostResolvConf("/nonexistent", machine); fmt.Sprint(l.Nameservers) != "[10.202.0.1]" {
		t.Error("without a file:", l)
	}
}

func service(namespace, name, ip string, port int32) *corev1.Service {
	s := &corev1.Service{Spec: corev1.ServiceSpec{
		ClusterIP: ip,
		Ports:     []corev1.ServicePort{{Name: "main", Port: port, Protocol: corev1.ProtocolTCP}},
	}}
	s.Namespace, s.Name = namespace, name
	return s
}

func TestVariablesOfServices(t *testing.T) {
	all := []*corev1.Service{
		service("default", "kubernetes", "10.96.0.1", 443), service("default", "other", "10.96.0.2", 80),
		service("shop", "web", "10.96.0.3", 80),
		service("shop", "headless", corev1.ClusterIPNone, 80),
	}
	pod := &corev1.Pod{}
	pod.Namespace = "shop"
	with := strings.Join(variables(pod, all), " ")
	for _, want := range []string{
		"KUBERNETES_SERVICE_HOST=10.96.0.1", "KUBERNETES_SERVICE_PORT=443",
		"WEB_SERVICE_HOST=10.96.0.3", "WEB_PORT_80_TCP=tcp://10.96.0.3:80",
	} {
		if !strings.Contains(with, want) {
			t.Errorf("%s is not in %s", want, with)
		}
	}
	if strings.Contains(with, "OTHER") || strings.Contains(with, "HEADLESS") {
		t.Error("too much:", with)
	}
	no := false
	pod.Spec.EnableServiceLinks = &no
	if without := strings.Join(variables(pod, all), " "); strings.Contains(without, "WEB") ||
		!strings.Contains(without, "KUBERNETES_SERVICE_HOST=10.96.0.1") {
		t.Error("without links:", without)
	}
}
