package main

import (
	"strings"
	"testing"

	"github.com/onsi/ginkgo/v2/types"
)

// Only what Fargate itself refuses excuses a failure, be it on the list or found in the spec's events.
func TestWhichFailuresAreExpected(t *testing.T) {
	event := func(message string) string {
		return "  I1130 07:00:00.000000 42 dump.go:53] At 2026-11-30 07:00:00 +0000 UTC - event for pod-1: " +
			"{fargate-scheduler } FailedScheduling: " + message + "\n"
	}
	for _, c := range []struct{ text, output, want string }{
		{"[sig-node] PrivilegedPod [NodeConformance] should enable privileged commands", "", "privileged"},
		{"[sig-apps] Daemon set [Serial] should run and stop simple daemon [Conformance]", "", "no DaemonSets"},
		{
			"[sig-apps] Job should run a job to completion when tasks sometimes fail and are locally restarted [Conformance]",
			"", "",
		},
		{
			"[sig-apps] Job should run a job to completion when tasks sometimes fail and are not locally restarted", "",
			"hostPath",
		},
		{"[sig-storage] HostPathType File [Slow] Should be able to mount file", "", "hostPath"},
		{"[sig-storage] PV Protection Verify \"immediate\" deletion of a PV that is not bound to a PVC", "", ""},
		{
			"[sig-apps] DisruptionController evictions: maxUnavailable deny evictions, integer => " +
				"should not allow an eviction [Serial]", "", "host port",
		},
		{"[sig-apps] DisruptionController evictions: too few pods, absolute => should not allow an eviction", "", ""},
		{
			"[sig-node] a spec", event("Pod not supported on a microVM: volumes not supported: " +
				"kube-api-access-x is of an unsupported volume Type"), "",
		},
		{
			"[sig-node] a spec", event("Pod not supported on a microVM: fields not supported: OS windows"),
			"Fargate refuses a pod of it: OS windows",
		},
		{
			"[sig-storage] a spec", event("Pod not supported on a microVM: volumes not supported: data not supported because: " +
				"PVC local bound to invalid PV pv-1 without CSI Driver"),
			"Fargate refuses a pod of it: bound to invalid PV pv-1 without CSI Driver",
		},
		{
			"[sig-storage] a spec", event("Pod not supported on a microVM: volumes not supported: data not supported because: " +
				"PVC waits not bound"), "",
		},
		{"[sig-node] a spec", event("no host has room") + "HostNetwork", ""},
	} {
		got := excuse(types.SpecReport{LeafNodeText: c.text, CapturedGinkgoWriterOutput: c.output})
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s\n%sis excused by %q, want %q", c.text, c.output, got, c.want)
		}
	}
}

// The suite may run specs that must not run beside others only one at a time.
func TestSerialSpecs(t *testing.T) {
	for _, c := range []struct {
		args        []string
		focus, skip string
		procs       int
	}{
		{nil, defaultFocus, defaultSkip, 2},
		{[]string{"-serial"}, serialFocus, serialSkip, 1},
		{[]string{"-serial", "-focus", "Daemon set", "-procs", "4"}, "Daemon set", serialSkip, 1},
	} {
		dir := t.TempDir()
		o, err := parse(append([]string{"-root", dir, "-nodeless", dir}, c.args...))
		if err != nil || o.focus != c.focus || o.skip != c.skip || o.procs != c.procs {
			t.Errorf("%v: focus %s, skip %s, procs %d, %v", c.args, o.focus, o.skip, o.procs, err)
		}
	}
}
