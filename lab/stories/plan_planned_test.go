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

// planned is the output of `nodeless plan -o json`.
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

// kind is what the test compares of a node: m5.large, or m5.large spot.
func (m *machinePlanned) kind() string { return kindOf(m.Type, m.CapacityType) }

func kindOf(instanceType, capacityType string) string {
	return strings.TrimSuffix(instanceType+" "+capacityType, " on-demand")
}

// inPool is the state of a pool: kinds by node name, pods by name and how many of them wait, and how many pods of
// DaemonSets wait.
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

// as returns an error that says where a pool differs from the plan. For changes that delete pods themselves (fewer),
// it does not compare evictions.
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

// plan runs plan for all these changes, and returns its result, its output and the exit code.
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
	_ = cmd.Run() // the exit code says enough
	var p planned
	if err := json.Unmarshal(out.Bytes(), &p); err != nil {
		c.t.Fatalf("plan: exit code %d, %v\n%s%s", cmd.ProcessState.ExitCode(), err, out.String(), errs.String())
	}
	return p, out.String(), cmd.ProcessState.ExitCode()
}

// of returns the part of a plan about one pool, whose namespace has the same name.
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

// tolerance is how much costs may differ: spot prices change every hour.
func (p *planned) tolerance() float64 {
	out := 1e-6
	for _, m := range append(append([]machinePlanned(nil), p.Removed...), p.Added...) {
		if m.CapacityType == karpv1.CapacityTypeSpot {
			out += m.DollarsPerHour / 5
		}
	}
	return out
}
