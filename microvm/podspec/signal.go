package podspec

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// Real-time signals as C libraries count them: the first two are their own.
const (
	firstRealTime = 34
	lastRealTime  = 64
)

// stopSignal is the number of the signal that ends a container: the pod's own word, else its image's; 0 if neither says one.
func stopSignal(c *corev1.Container, ofImage string) (int, error) {
	name := ofImage
	if c.Lifecycle != nil && c.Lifecycle.StopSignal != nil {
		name = string(*c.Lifecycle.StopSignal)
	}
	if name == "" {
		return 0, nil
	}
	n := signalNumber(name)
	if n < 1 || n > lastRealTime {
		return 0, fmt.Errorf("the stop signal %q is none; use a name such as SIGTERM or a number from 1 to %d", name, lastRealTime)
	}
	return n, nil
}

// signalNumber reads SIGQUIT, QUIT, SIGRTMIN+3, SIGRTMAX-1 and 3; 0 for what is none.
func signalNumber(name string) int {
	if n, err := strconv.Atoi(name); err == nil {
		return n
	}
	name = "SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG")
	for prefix, from := range map[string]int{"SIGRTMIN": firstRealTime, "SIGRTMAX": lastRealTime} {
		if offset, ok := strings.CutPrefix(name, prefix); ok {
			if offset == "" {
				return from
			}
			n, err := strconv.Atoi(offset)
			if err != nil || from+n < firstRealTime || from+n > lastRealTime {
				return 0
			}
			return from + n
		}
	}
	return int(unix.SignalNum(name))
}
