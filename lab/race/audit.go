package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// auditEvent holds the fields used from a line of the API server's audit log (audit.k8s.io/v1, Event).
type auditEvent struct {
	Stage          string    `json:"stage"`
	RequestURI     string    `json:"requestURI"`
	Verb           string    `json:"verb"`
	UserAgent      string    `json:"userAgent"`
	Received       time.Time `json:"requestReceivedTimestamp"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
}

// audit summarizes the API server's audit log in a window.
type audit struct {
	Calls   map[string]int `json:"calls"`   // by the controller, by verb and resource
	Others  map[string]int `json:"others"`  // all calls, by user agent
	Evicted map[string]int `json:"evicted"` // pods, by who evicted or deleted them; without owners and kubelets

	pods map[string]bool // namespace/name of the evicted pods
}

// readAudit reads the audit log. The log does not contain calls on Leases.
func readAudit(path, agent string, start, end time.Time) (audit, error) {
	a := audit{Calls: map[string]int{}, Others: map[string]int{}, Evicted: map[string]int{}, pods: map[string]bool{}}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*.log"))
	if err != nil || len(files) == 0 {
		return a, fmt.Errorf("audit log %s: %w", path, errors.Join(err, os.ErrNotExist))
	}
	slices.Sort(files)
	for _, name := range files {
		if err := a.readFile(name, agent, start, end); err != nil {
			return a, fmt.Errorf("audit log %s: %w", name, err)
		}
	}
	return a, nil
}

func (a *audit) readFile(name, agent string, start, end time.Time) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // an incomplete line is still being written
		}
		if err != nil {
			return err
		}
		var e auditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		if !e.Received.Before(start) && e.Received.Before(end) {
			a.add(&e, agent)
		}
	}
}

// add counts each call once: a watch when it begins, any other call when it ends.
func (a *audit) add(e *auditEvent, agent string) {
	if (e.Stage == "ResponseStarted") != (e.Verb == "watch") {
		return
	}
	resource := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		resource += "/" + e.ObjectRef.Subresource
	}
	name, _, _ := strings.Cut(e.UserAgent, "/")
	a.Others[name]++
	if strings.HasPrefix(e.UserAgent, agent) {
		a.Calls[strings.TrimSpace(e.Verb+" "+resource)]++
	}
	pod := e.ObjectRef.Namespace + "/" + e.ObjectRef.Name
	if a.pods[pod] || e.ResponseStatus.Code >= 300 || !takesPod(e, agent) {
		return
	}
	a.pods[pod] = true
	by := name
	if _, account, ok := strings.Cut(e.User.Username, "system:serviceaccount:kube-system:"); ok {
		by = account
	}
	a.Evicted[by+" "+e.Verb+" "+resource]++
}

// takesPod reports whether a call removes a pod without its owner or kubelet having asked for that: evictions, and
// deletions by the controller or by the Kubernetes controllers that clean up after lost nodes.
func takesPod(e *auditEvent, agent string) bool {
	if e.ObjectRef.Resource != "pods" || e.ObjectRef.Name == "" {
		return false
	}
	if e.ObjectRef.Subresource == "eviction" {
		return e.Verb == "create"
	}
	_, account, _ := strings.Cut(e.User.Username, "system:serviceaccount:kube-system:")
	return e.ObjectRef.Subresource == "" && e.Verb == "delete" && (strings.HasPrefix(e.UserAgent, agent) ||
		slices.Contains([]string{"pod-garbage-collector", "node-controller", "taint-eviction-controller"}, account))
}

// evictions counts the evicted pods that had been running, without those of DaemonSets.
func (a *audit) evictions(pods []podTimes) int {
	n := 0
	for _, p := range pods {
		if a.pods[p.Name] && !p.Ready.IsZero() && !strings.HasPrefix(p.Owner, "DaemonSet/") {
			n++
		}
	}
	return n
}

func sum(counts map[string]int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}
