package stories

import (
	"bufio"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// guestsAsk is what the guest requests everywhere: paths of every service that may listen on this host.
var guestsAsk = []struct{ method, path, body string }{
	{"GET", "/", ""},
	{"GET", "/lite", ""},
	{"GET", "/api/history", ""},
	{"GET", "/api/stream", ""},
	{"GET", "/api/why?of=pod/huge", ""},
	{"GET", "/_nodeless/summary", ""},
	{"GET", "/_nodeless/instances", ""},
	{"POST", "/_nodeless/fail", `{"api":"CreateFleet","code":"InternalError","times":99}`},
	{"GET", "/metrics", ""},
	{"GET", "/debug/pprof/", ""},
	{"GET", "/api/v1/pods", ""},
	{"GET", "/apis/metrics.k8s.io/v1beta1/pods", ""},
	{"GET", "/pods", ""},
	{"GET", "/stats/summary", ""},
	{"POST", "/mutate-pods", `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{}}`},
}

// wantNothingForGuests plays a microVM's guest that has reached this host's loopback. It speaks to every listener of
// the process, as localhost and without a secret, and none tells it anything about the cluster or acts for it.
func (c *cluster) wantNothingForGuests() {
	c.t.Helper()
	at := listeners(c.t, c.Session.PID)
	c.t.Logf("the process listens at %v", at)
	region, page := strings.TrimPrefix(c.Session.RegionURL, "http://"), pageAddress(c.Session.Page)
	if len(at) < 3 || !slices.Contains(at, region) || !slices.Contains(at, page) {
		c.t.Fatalf("the page at %s and the region at %s are not among the listeners %v", page, region, at)
	}
	guest := &http.Client{
		// any certificate will do
		Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer guest.CloseIdleConnections()
	for _, address := range at {
		for _, q := range guestsAsk {
			status, plain := c.wantRefusal(guest, q.method, "http://"+address+q.path, q.body)
			_, secure := c.wantRefusal(guest, q.method, "https://"+address+q.path, q.body)
			if !plain && !secure {
				c.t.Errorf("nobody answers at %s: what is it?", address)
			}
			ours := address == page || address == region && strings.HasPrefix(q.path, "/_nodeless/")
			if ours && status != http.StatusUnauthorized {
				c.t.Errorf("%s %s at %s: %d, want 401", q.method, q.path, address, status)
			}
		}
	}
}

// wantRefusal sends a request and expects a refusal that reveals nothing about the cluster. The second result is
// false if the listener does not speak the protocol.
func (c *cluster) wantRefusal(guest *http.Client, method, url, body string) (int, bool) {
	c.t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Host = "localhost"
	resp, err := guest.Do(req)
	if err != nil {
		return 0, false
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	for _, state := range []string{"huge", "ip-", "general-purpose", `"instances":`} {
		if resp.StatusCode < 400 || resp.StatusCode >= 500 || strings.Contains(string(text), state) {
			c.t.Errorf("a guest that asks for %s %s gets %d %.300s", method, url, resp.StatusCode, text)
			break
		}
	}
	return resp.StatusCode, true
}

// pageAddress returns the host and port of a link.
func pageAddress(link string) string {
	address, _, _ := strings.Cut(strings.TrimPrefix(link, "http://"), "/")
	return address
}

// listeners returns the TCP addresses at which a process listens, as a client on this host reaches them.
func listeners(t testing.TB, pid int) (out []string) {
	t.Helper()
	mine := map[string]bool{}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if to, err := os.Readlink(f); err == nil && strings.HasPrefix(to, "socket:[") {
			mine[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			t.Fatal(err)
		}
		// Columns: sl, local_address, rem_address, st (0A = LISTEN), …, the tenth is the inode (proc_pid_net(5)).
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if col := strings.Fields(lines.Text()); len(col) > 9 && col[3] == "0A" && mine[col[9]] {
				out = append(out, loopbackOf(t, col[1]))
			}
		}
		_ = f.Close()
	}
	return out
}

// loopbackOf parses an address as the kernel writes it: each 32-bit word in the machine's byte order, which is
// little-endian here.
func loopbackOf(t testing.TB, text string) string {
	t.Helper()
	address, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(address)
	if err != nil {
		t.Fatal(err)
	}
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	var n int
	if _, err := fmt.Sscanf(port, "%X", &n); err != nil {
		t.Fatal(err)
	}
	ip := net.IP(raw)
	if ip.IsUnspecified() {
		ip = net.IPv4(127, 0, 0, 1)
	}
	return net.JoinHostPort(ip.String(), fmt.Sprint(n))
}
