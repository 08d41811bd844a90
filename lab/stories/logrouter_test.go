package stories

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// logSink receives what an http output of the log router sends.
type logSink struct {
	*httptest.Server
	at    string // the address to reach it; "" = where it listens
	mu    sync.Mutex
	lines map[string][]string // by pod
	burst map[string][]string // lines that begin with the word burst
}

func newLogSink(t *testing.T) *logSink {
	t.Helper()
	s := &logSink{lines: map[string][]string{}, burst: map[string][]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		for line := range strings.Lines(string(body)) {
			var record struct {
				Log        string
				Kubernetes struct {
					Pod string `json:"pod_name"`
				}
			}
			if err := json.Unmarshal([]byte(line), &record); err != nil {
				t.Errorf("routed: %v: %q", err, line)
			}
			if strings.HasPrefix(record.Log, "burst ") {
				s.burst[record.Kubernetes.Pod] = append(s.burst[record.Kubernetes.Pod], record.Log)
				continue
			}
			s.lines[record.Kubernetes.Pod] = append(s.lines[record.Kubernetes.Pod], record.Log)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *logSink) linesOf(pod string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lines[pod])
}

// output returns its section of output.conf.
func (s *logSink) output() string {
	host, port, _ := net.SplitHostPort(cmp.Or(s.at, s.Listener.Addr().String()))
	return "[OUTPUT]\n    Name http\n    Match kube.*_default_hello-*\n    Host " + host + "\n    Port " + port +
		"\n    Format json_lines\n"
}

// hasAll returns an error if lines of some pod are missing.
func (s *logSink) hasAll(pods []corev1.Pod) func() error {
	return func() error {
		for i := range pods {
			if len(s.linesOf(pods[i].Name)) == 0 {
				return fmt.Errorf("no line of %s was routed", pods[i].Name)
			}
		}
		return nil
	}
}

// hasUpTo returns an error if one of a pod's numbered lines, up to most, is missing. After a host process was killed
// some lines may arrive twice, but none is lost.
func (s *logSink) hasUpTo(pod string, most int) error {
	lines := s.linesOf(pod)
	for n := 1; n <= most; n++ {
		if want := fmt.Sprintf("%d %s", n, pod); !slices.Contains(lines, want) {
			return fmt.Errorf("%q was not routed; %d lines of %d were", want, len(lines), most)
		}
	}
	return nil
}

// hasBurst returns an error unless exactly the numbered lines of a burst are there, in order and each once.
func (s *logSink) hasBurst(pod string, most int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, line := range s.burst[pod] {
		if want := fmt.Sprintf("burst %d", i+1); line != want {
			return fmt.Errorf("%q was routed, want %q", line, want)
		}
	}
	if n := len(s.burst[pod]); n != most {
		return fmt.Errorf("%d lines of %d were routed", n, most)
	}
	return nil
}

// goodbye checks the example's lines: numbered, each once, followed by "goodbye".
func goodbye(lines []string) error {
	if n := len(lines); n == 0 || lines[n-1] != "goodbye" {
		return fmt.Errorf("the last word is missing in %q", lines)
	}
	return consecutive(strings.Join(lines[:len(lines)-1], "\n"), nil)
}

// routeLogs routes the logs of microVMs to an output, without what a node adds to a line.
func (c *cluster) routeLogs(output string) {
	c.t.Helper()
	text := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	c.apply(`
apiVersion: v1
kind: Namespace
metadata: {name: aws-observability, labels: {aws-observability: enabled}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: aws-logging, namespace: aws-observability}
data:
  filters.conf: ` + text("[FILTER]\n    Name parser\n    Match *\n    Key_Name log\n    Parser cri\n[FILTER]\n    Name kubernetes\n    Match *\n") + `
  parsers.conf: ` + text("[PARSER]\n    Name cri\n    Format regex\n    Regex ^[^ ]+ (?:stdout|stderr) . (?<log>.*)$\n") + `
  output.conf: ` + text(output) + "\n")
}
