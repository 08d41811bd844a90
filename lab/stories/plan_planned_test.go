package stories

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// planned is what `nodeless plan -o json` says.
type planned struct {
	Before, After  struct{ DollarsPerHour float64 }
	Evictions      []struct{ Pod string }
	Removed, Added []machinePlanned
	Kept, Unplaced []struct{ Name, Why string }
	DaemonsPending []struct{ DaemonSet, Node, Why, Then string }
}

type machinePlanned struct {
	Name, Type, NodePool, CapacityType string
	DollarsPerHour                     float64
}

// kind tells machines apart as the test does: m5.large, or m5.large spot.
func (m *machinePlanned) kind() string { return kindOf(m.Type, m.CapacityType) }

func kindOf(instanceType, capacityType string) string {
	return strings.TrimSuffix(instanceType+" "+capacityType, " on-demand")
}

// inPool is what a pool holds: kinds of machines by node, pods by name and how many of them wait; of DaemonSets only
// those that wait.
type inPool struct {
	nodes    map[string]string
	pods     map[string]bool
	waiting  int
	agents   int
	youngest time.Time // when the last pod was created
}

func (c *cluster) inPool(name string) (inPool, error) {
	out := inPool{nodes: map[string]string{}, pods: map[string]bool{}}
	var nodes corev1.NodeList
	var pods, agents corev1.PodList
	err := errors.Join(c.List(context.Background(), &agents, client.InNamespace(name),
		client.MatchingLabels{"app": "agent"}),
		c.List(context.Background(), &nodes, client.MatchingLabels{karpv1.NodePoolLabelKey: name}),
		c.List(context.Background(), &pods, client.InNamespace(name), client.MatchingLabels{"app": "web"}))
	for i := range nodes.Items {
		labels := nodes.Items[i].Labels
		out.nodes[nodes.Items[i].Name] = kindOf(labels[corev1.LabelInstanceTypeStable], labels[karpv1.CapacityTypeLabelKey])
	}
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp == nil {
			if out.pods[name+"/"+pods.Items[i].Name] = true; pods.Items[i].Spec.NodeName == "" {
				out.waiting++
			}
			if at := pods.Items[i].CreationTimestamp.Time; at.After(out.youngest) {
				out.youngest = at
			}
		}
	}
	for i := range agents.Items {
		if agents.Items[i].Spec.NodeName == "" {
			out.agents++
		}
	}
	return out, err
}

// as says in what a pool is not as it was planned; nil if it is. Where pods go with the change itself it is not told
// which were evicted.
func (p *planned) as(before, now inPool, fewer bool) error {
	gone, come, evicted := map[string]bool{}, map[string]int{}, map[string]bool{}
	for name := range before.nodes {
		if now.nodes[name] == "" {
			gone[name] = true
		}
	}
	for name, kind := range now.nodes {
		if before.nodes[name] == "" {
			come[kind]++
		}
	}
	for pod := range before.pods {
		if !now.pods[pod] && !fewer {
			evicted[pod] = true
		}
	}
	wantGone, wantCome, wantEvicted := map[string]bool{}, map[string]int{}, map[string]bool{}
	for _, m := range p.Removed {
		wantGone[m.Name] = true
	}
	for _, m := range p.Added {
		wantCome[m.kind()]++
	}
	for _, e := range p.Evictions {
		wantEvicted[e.Pod] = true
	}
	if !maps.Equal(gone, wantGone) || !maps.Equal(come, wantCome) || !maps.Equal(evicted, wantEvicted) {
		return fmt.Errorf("planned: %v go, %v come, %v evicted; it happened that %v go, %v come, %v evicted", wantGone,
			wantCome, wantEvicted, gone, come, evicted)
	}
	if len(p.Unplaced) != now.waiting {
		return fmt.Errorf("planned: no place for %v; %d pods wait", p.Unplaced, now.waiting)
	}
	if len(p.DaemonsPending) != now.agents {
		return fmt.Errorf("planned: %v Pending; %d pods of DaemonSets wait", p.DaemonsPending, now.agents)
	}
	return nil
}

// plan asks for a plan of all these changes, and returns what it says and the exit code.
func (c *cluster) plan(all []whatIf, args ...string) (planned, string, int) {
	c.t.Helper()
	args = append([]string{"plan", "--detailed-exitcode", "--feature-gates", planGates, "-o", "json", "-f", "-"}, args...)
	var manifests strings.Builder
	for i := range all {
		args = append(args, all[i].args...)
		if all[i].change != nil {
			manifests.WriteString(all[i].change(all[i].pool()) + "---\n")
		}
	}
	cmd := exec.Command(binary, args...)
	cmd.Env, cmd.Stdin = append(c.environment(), "NODELESS_DATA_DIR="+c.dir), strings.NewReader(manifests.String())
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the exit code says it
	var p planned
	if err := json.Unmarshal(out.Bytes(), &p); err != nil {
		c.t.Fatalf("plan: exit code %d, %v\n%s%s", cmd.ProcessState.ExitCode(), err, out.String(), errs.String())
	}
	return p, out.String(), cmd.ProcessState.ExitCode()
}

// of is what a plan says of one pool, whose namespace has its name.
func (p *planned) of(pool string) planned {
	out := planned{}
	for _, m := range p.Removed {
		if m.NodePool == pool {
			out.Removed = append(out.Removed, m)
		}
	}
	for _, m := range p.Added {
		if m.NodePool == pool {
			out.Added = append(out.Added, m)
		}
	}
	for _, d := range p.DaemonsPending {
		if strings.HasPrefix(d.DaemonSet, pool+"/") {
			out.DaemonsPending = append(out.DaemonsPending, d)
		}
	}
	for _, e := range p.Evictions {
		if strings.HasPrefix(e.Pod, pool+"/") {
			out.Evictions = append(out.Evictions, e)
		}
	}
	for _, u := range p.Unplaced {
		if strings.HasPrefix(u.Name, pool+"/web-") {
			out.Unplaced = append(out.Unplaced, u)
		}
	}
	return out
}

// tolerance is by how much costs may differ: spot prices change with the hour.
func (p *planned) tolerance() float64 {
	out := 1e-6
	for _, m := range append(append([]machinePlanned(nil), p.Removed...), p.Added...) {
		if m.CapacityType == karpv1.CapacityTypeSpot {
			out += m.DollarsPerHour / 5
		}
	}
	return out
}
