package kubelet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/microvm/kubelet"
)

// mark is the prefix of every log line of a simulated container.
const mark = "[simulated] "

// logs manages the log files of simulated containers, which are written when first read.
type logs struct {
	dir   string
	nodes Nodes
	mu    sync.Mutex
	known map[string]written // by path
}

// written describes what a log file holds.
type written struct {
	pod  *corev1.Pod
	last bool // including the container's last line
}

func newLogs(dir string, nodes Nodes) (*logs, error) {
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("folder for logs of simulated containers: %w", err)
	}
	return &logs{dir: dir, nodes: nodes, known: map[string]written{}}, nil
}

// file brings the log of a container up to date and returns it.
func (l *logs) file(pod *corev1.Pod, container string) (kubelet.LogFile, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	path := filepath.Join(l.dir, string(pod.UID)+"_"+container+".log")
	have, there := l.known[path]
	spec, status := find(pod, container)
	var lines []string
	if !there {
		l.sweep()
		lines = startLines(pod, spec, status)
	}
	over := status.State.Terminated
	if over != nil && !have.last {
		lines = append(lines, line(over.FinishedAt.Time,
			fmt.Sprintf("the simulated process has ended with exit code %d", over.ExitCode)))
	}
	if len(lines) > 0 {
		if err := add(path, lines); err != nil {
			return kubelet.LogFile{}, err
		}
	}
	l.known[path] = written{pod: pod, last: over != nil}
	return kubelet.LogFile{Path: path, Running: func() bool {
		now, ok := l.current(pod)
		if !ok {
			return false
		}
		_, status := find(now, container)
		return status.State.Running != nil
	}}, nil
}

// current returns the current version of a pod, if it still exists.
func (l *logs) current(pod *corev1.Pod) (*corev1.Pod, bool) {
	now, ok := l.nodes.Pod(pod.Namespace, pod.Name)
	return now, ok && now.UID == pod.UID
}

// sweep deletes the logs of pods that no longer exist.
func (l *logs) sweep() {
	for path, w := range l.known {
		if _, ok := l.current(w.pod); !ok {
			_ = os.Remove(path)
			delete(l.known, path)
		}
	}
}

func add(path string, lines []string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(strings.Join(lines, "")); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

// line returns a log line in CRI's format.
func line(at time.Time, text string) string {
	return at.UTC().Format(time.RFC3339Nano) + " stdout F " + mark + text + "\n"
}

// startLines returns the first lines of a container's log: that it is simulated, and what its command would print.
func startLines(pod *corev1.Pod, c corev1.Container, status corev1.ContainerStatus) []string {
	at := pod.CreationTimestamp.Time
	if s := status.State; s.Running != nil {
		at = s.Running.StartedAt.Time
	} else if s.Terminated != nil {
		at = s.Terminated.StartedAt.Time
	}
	out := []string{line(at, fmt.Sprintf("node %s is a simulated node: image %s does not run here, "+
		"its process is simulated", pod.Spec.NodeName, c.Image))}
	for _, text := range echoed(append(append([]string{}, c.Command...), c.Args...)) {
		out = append(out, line(at, text))
	}
	return out
}

// echoed returns what the `echo` commands in a command print, where this is known without a shell.
func echoed(command []string) []string {
	if len(command) > 0 && filepath.Base(command[0]) == "echo" {
		return []string{strings.Join(command[1:], " ")}
	}
	var out []string
	for _, part := range strings.FieldsFunc(strings.Join(command, " "),
		func(r rune) bool { return strings.ContainsRune(";&\n", r) }) {
		words := strings.Fields(part)
		for len(words) > 0 && words[0] != "echo" {
			words = words[1:]
		}
		text := strings.Join(words, " ")
		if text != "" && !strings.ContainsAny(text, "$|<>`(){}*?\\") {
			out = append(out, strings.NewReplacer(`"`, "", "'", "").Replace(strings.TrimSpace(strings.TrimPrefix(text, "echo"))))
		}
	}
	return out
}

// find returns the spec and the status of a pod's container.
func find(pod *corev1.Pod, name string) (c corev1.Container, s corev1.ContainerStatus) {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				c = list[i]
			}
		}
	}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				s = list[i]
			}
		}
	}
	return c, s
}
