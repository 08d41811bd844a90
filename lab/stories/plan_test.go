package stories

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// planGates are the feature gates that some of the changes need.
const planGates = "NodeOverlay=true,StaticCapacity=true"

// volumePrice is the hourly price of a node's root volume of 20 GiB gp3, at $0.08 per GiB and month of 730 hours,
// rounded to a millionth of a dollar.
const volumePrice = 0.002192

// dollarsWithVolumes is the hourly price of the region's instances and their root volumes.
func (c *cluster) dollarsWithVolumes() float64 {
	var nodes corev1.NodeList
	if err := c.List(context.Background(), &nodes); err != nil {
		c.t.Fatal(err)
	}
	return c.dollars() + float64(len(nodes.Items))*volumePrice
}

// The plan of nearly 40 changes matches what happens when they are made.
func TestAPlanIsWhatHappens(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", "1s", "--feature-gates", planGates)
	before := c.beforeTheChanges()
	dollars := c.dollarsWithVolumes()
	all, text, code := c.plan(whatIfs)
	if code != 2 || math.Abs(all.Before.DollarsPerHour-dollars) > all.tolerance() {
		t.Errorf("plan: exit code %d, it begins with $%v/h, the region says $%v/h", code, all.Before.DollarsPerHour, dollars)
	}
	plans := map[string]planned{}
	for i := range whatIfs {
		x := &whatIfs[i]
		plans[x.name] = all.of(x.name)
		if x.replaced != (len(plans[x.name].Removed) > 0) {
			t.Errorf("plan of %s: %+v", x.name, plans[x.name])
		}
	}
	for _, d := range all.DaemonsPending {
		if !strings.Contains(d.Why, "cpu") || !strings.Contains(d.Then, "make-room-for-daemonsets=true") {
			t.Errorf("what is done about a DaemonSet's pod without room: %+v", d)
		}
	}
	if len(plans["d-large"].DaemonsPending) != 1 {
		t.Errorf("a DaemonSet that does not fit: %+v", plans["d-large"])
	}
	c.askedOfACapture(t, &all)
	if t.Failed() {
		t.Fatal(text)
	}
	c.makeTheChanges()
	happened := func() error {
		for i := range whatIfs {
			x := &whatIfs[i]
			now, err := c.inPool(x.name)
			p := plans[x.name]
			if err = errors.Join(err, p.as(before[x.name], now, x.fewer)); err != nil {
				return fmt.Errorf("%s: %w", x.name, err)
			}
		}
		if got := c.dollarsWithVolumes(); math.Abs(got-all.After.DollarsPerHour) > all.tolerance() {
			return fmt.Errorf("the region costs $%v/h, planned was $%v/h", got, all.After.DollarsPerHour)
		}
		return nil
	}
	c.eventually(480*time.Second, happened)
	if t.Failed() {
		return
	}
	t.Logf("%d changes: %d machines go, %d come, %d pods evicted, $%.3f/h, as planned", len(whatIfs), len(all.Removed),
		len(all.Added), len(all.Evictions), all.After.DollarsPerHour)
}

// beforeTheChanges waits until the pods of all changes run where they should, and returns the state of each pool.
func (c *cluster) beforeTheChanges() map[string]inPool {
	c.t.Helper()
	var first, merged, fillers strings.Builder
	for i := range whatIfs {
		x := &whatIfs[i]
		fmt.Fprintf(&first, "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n---\n", x.name)
		first.WriteString(x.pods + "---\n" + x.pool() + "---\n")
		switch {
		case x.merge:
			merged.WriteString(x.web())
			fillers.WriteString(x.filler())
		case x.replicas > 0:
			first.WriteString(x.web())
		}
	}
	c.apply(first.String() + fillers.String())
	for i := range whatIfs {
		if x := &whatIfs[i]; x.merge {
			c.wantPods(180*time.Second, x.name, "filler", x.replicas)
		}
	}
	c.apply(merged.String())
	for i := range whatIfs {
		c.wantPods(180*time.Second, whatIfs[i].name, "web", whatIfs[i].replicas)
	}
	if out, err := c.runIn(fillers.String(), "kubectl", "delete", "-f", "-"); err != nil {
		c.t.Fatalf("%v\n%s", err, out)
	}
	before := map[string]inPool{}
	// DaemonSets' pods are bound, static pools have their nodes, and the overlay has taken effect
	c.eventually(4*time.Minute, func() error {
		for _, ns := range []string{"d-gone", "d-other"} {
			if n := c.ready(ns, "agent"); n != 1 {
				return fmt.Errorf("%s: %d agents are ready", ns, n)
			}
		}
		for i := range whatIfs {
			x := &whatIfs[i]
			in, err := c.inPool(x.name)
			if err != nil {
				return err
			}
			if n := c.phases(x.name, "filler"); len(in.nodes) != x.nodes() || len(n) > 0 {
				return fmt.Errorf("%s: %d machines, want %d; fillers by phase: %v", x.name, len(in.nodes), x.nodes(), n)
			}
			// A pod that is younger than the time in which its move pays for itself stays: of two such pods, the older
			// one's node is removed first. The change is made after it is planned, so all pods must be old enough for both.
			if age := time.Since(in.youngest); x.replicas > 0 && age < time.Minute {
				return fmt.Errorf("%s: its youngest pod is %s old", x.name, age.Round(time.Second))
			}
			for _, kind := range in.nodes {
				if x.name == "o-gone" && kind != "m5.4xlarge" {
					return fmt.Errorf("o-gone: its overlay makes m5.large dear, and it has %s", kind)
				}
			}
			before[x.name] = in
		}
		return nil
	})
	return before
}

// makeTheChanges makes all changes with kubectl, manifests first.
func (c *cluster) makeTheChanges() {
	c.t.Helper()
	var changes strings.Builder
	for i := range whatIfs {
		if x := &whatIfs[i]; x.change != nil {
			changes.WriteString(x.change(x.pool()) + "---\n")
		}
	}
	c.apply(changes.String())
	for i := range whatIfs {
		x := &whatIfs[i]
		for words := range strings.SplitSeq(strings.Join(x.kubectl, " "), " ; ") {
			if words != "" {
				c.kubectl(append([]string{"-n", x.name}, strings.Fields(words)...)...)
			}
		}
	}
}

// askedOfACapture plans again from a captured file, and gets the same plan.
func (c *cluster) askedOfACapture(t *testing.T, want *planned) {
	t.Helper()
	cmd := exec.Command(binary, "capture")
	cmd.Env = append(c.environment(), "NODELESS_DATA_DIR="+c.dir)
	dump, err := cmd.Output()
	if err != nil {
		t.Fatalf("capture: %v", err)
	}
	if bytes.Contains(dump, []byte("image: pause")) || !bytes.Contains(dump, []byte("kind: CaptureEnd")) {
		t.Errorf("the capture holds what it should not, or not all")
	}
	file := c.home + "/cluster.yaml"
	if err := os.WriteFile(file, dump, 0o600); err != nil {
		t.Fatal(err)
	}
	some := whatIfs[:15] // all of them would take too long
	p, _, _ := c.plan(some, "--from", file)
	for i := range some {
		name := some[i].name
		got, want := p.of(name), want.of(name)
		if len(got.Removed) != len(want.Removed) || len(got.Added) != len(want.Added) ||
			len(got.Evictions) != len(want.Evictions) || len(got.Unplaced) != len(want.Unplaced) {
			t.Errorf("%s: of the capture it says %+v, of the cluster %+v", name, got, want)
		}
	}
	x := &whatIfs[0]
	for text, want := range map[string]string{
		strings.Replace(x.pool(), "operator: In", "operator: Im", 1): "line 11",
		strings.Replace(x.pool(), "taints:", "tainst:", 1):           `unknown field "spec.template.spec.tainst"`,
		"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n":        "plan cannot forecast a changed Secret a",
	} {
		if out, err := c.runIn(text, "plan", "--from", file, "-f", "-"); err == nil || !strings.Contains(out, want) {
			t.Errorf("plan of a bad manifest: %v, want %q\n%s", err, want, out)
		}
	}
}
