//go:build !noplane

package migrate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/controller/gates"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/whatif"
	"github.com/nodeless/nodeless/internal/kit/printable"
	"github.com/nodeless/nodeless/migrate"
	"github.com/nodeless/nodeless/view"
)

// bill compares the nodes that the input launched with those of the new pools, for the pods that run now. All prices
// are those of the built-in catalogue.
type bill struct {
	Today   nodes      `json:"today"`
	Then    []forecast `json:"then,omitempty"`
	Prices  string     `json:"prices,omitempty"`
	Needs   string     `json:"needs,omitempty"`   // what the controller needs for it
	Unknown string     `json:"unknown,omitempty"` // why there is no comparison
}

// nodes are counted by type and capacity type, such as "m5.large on-demand".
type nodes struct {
	Nodes           map[string]int `json:"nodes"`
	DollarsPerMonth float64        `json:"dollarsPerMonth"`
}

type forecast struct {
	Pools string `json:"pools"` // "as written" or "with --widen"
	nodes
	Unplaced []string `json:"unplaced,omitempty"` // pods that would get no node, and why
}

// liveBill makes the bill from the cluster.
func (o *options) liveBill(ctx context.Context, t *target.Cluster, in texts, r *migrate.Result) *bill {
	read := t.Options
	read.Catalog, read.Partial, read.Keep = nil, true, true
	read.Region = cmp.Or(o.region, read.Region)
	c, err := capture.Read(ctx, t.REST, read)
	if err != nil {
		return &bill{Unknown: err.Error()}
	}
	return compare(ctx, c, in, o.o, r)
}

// compare forecasts what happens when the old nodes are deleted and the pools exist: as they are written and, unless
// that changes nothing, with more instance types.
func compare(ctx context.Context, c *capture.Cluster, in texts, o migrate.Options, r *migrate.Result) *bill {
	b := &bill{}
	old := launched(c, r.Nodes)
	if len(old) == 0 {
		b.Unknown = "no node in the cluster is of what is migrated"
		return b
	}
	var err error
	if b.Today, err = today(old); err != nil {
		b.Unknown = err.Error()
		return b
	}
	b.Unknown = b.forecast(ctx, c, "as written", r, old)
	b.Prices = view.PriceSource()
	if b.Unknown != "" || o.Widen {
		return b
	}
	o.Widen = true
	if w, err := in.migrated(o); err == nil && !reflect.DeepEqual(w.Objects, r.Objects) {
		b.Unknown = b.forecast(ctx, c, "with --widen", w, old)
	}
	return b
}

// launched returns the Nodes that the input launched.
func launched(c *capture.Cluster, sets []migrate.Nodes) []*corev1.Node {
	var out []*corev1.Node
	for _, o := range c.Objects() {
		n, ok := o.(*corev1.Node)
		if !ok {
			continue
		}
		instance := catalog.InstanceID(n.Spec.ProviderID)
		if slices.ContainsFunc(sets, func(s migrate.Nodes) bool {
			return s.Label != "" && n.Labels[s.Label] == s.Value || instance != "" && slices.Contains(s.Instances, instance)
		}) {
			out = append(out, n)
		}
	}
	return out
}

// today prices nodes by their labels.
func today(old []*corev1.Node) (nodes, error) {
	out := nodes{Nodes: map[string]int{}}
	for _, n := range old {
		name, zone := n.Labels[corev1.LabelInstanceTypeStable], n.Labels[corev1.LabelTopologyZone]
		if err := out.add(name, zone, capacityOf(n), ""); err != nil {
			return out, fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	return out, nil
}

// add counts a node by its type, and adds the cost of the instance alone: volumes and addresses stay the same. Reserved
// capacity is billed whether it is used or not, so its nodes cost nothing more.
func (n *nodes) add(instanceType, zone, capacity, suffix string) error {
	price := view.PriceOf(map[string]string{
		corev1.LabelInstanceTypeStable: instanceType, corev1.LabelTopologyZone: zone, karpv1.CapacityTypeLabelKey: capacity,
	})
	if price == 0 && capacity != karpv1.CapacityTypeReserved {
		return fmt.Errorf("the built-in catalogue has no price of %q, %s in the zone %q", instanceType, capacity, zone)
	}
	n.Nodes[instanceType+" "+capacity+suffix]++
	n.DollarsPerMonth += float64(price) / 1e6 * whatif.HoursPerMonth
	return nil
}

// capacityOf returns the capacity type that the labels of Karpenter or EKS, or the custom ones of self-managed groups,
// name; on-demand if none does.
func capacityOf(n *corev1.Node) string {
	for _, key := range []string{
		karpv1.CapacityTypeLabelKey, "eks.amazonaws.com/capacityType", "node.kubernetes.io/lifecycle", "node-lifecycle",
	} {
		switch strings.ToLower(n.Labels[key]) {
		case karpv1.CapacityTypeSpot:
			return karpv1.CapacityTypeSpot
		case karpv1.CapacityTypeReserved, "capacity_block":
			return karpv1.CapacityTypeReserved
		}
	}
	return karpv1.CapacityTypeOnDemand
}

// forecast adds which nodes the pods would have, or returns why that is unknown.
func (b *bill) forecast(ctx context.Context, c *capture.Cluster, pools string, r *migrate.Result,
	old []*corev1.Node,
) string {
	changes, err := changesOf(r)
	if err != nil {
		return err.Error()
	}
	for _, n := range old {
		changes = append(changes, whatif.Change{Delete: "node/" + n.Name})
	}
	on := gates.Default()
	if on.StaticCapacity = slices.ContainsFunc(r.Objects, isStatic); on.StaticCapacity {
		b.Needs = "NodePools with spec.replicas launch nodes only with the controller's --feature-gates StaticCapacity=true"
	}
	out, err := whatif.Run(ctx, whatif.Input{
		Cluster: c, Changes: changes, Policy: model.Defaults(), Gates: on, Horizon: time.Hour,
	})
	var broken *whatif.CannotWorkError
	if errors.As(err, &broken) {
		return "the pools could launch nothing: " + strings.Join(broken.Why, "; ")
	}
	if err != nil {
		return err.Error()
	}
	f := forecast{Pools: pools, nodes: nodes{Nodes: map[string]int{}}}
	for _, n := range out.Added {
		suffix := ""
		if !slices.ContainsFunc(r.Objects, func(o *migrate.Object) bool { return o.Title() == "NodePool "+n.Pool }) {
			suffix = " of NodePool " + n.Pool // which existed before
		}
		if err := f.add(n.Type, n.Zone, n.CapacityType, suffix); err != nil {
			return err.Error()
		}
	}
	for _, u := range out.Unplaced {
		if !u.Before {
			f.Unplaced = append(f.Unplaced, u.Name+": "+u.Why)
		}
	}
	b.Then = append(b.Then, f)
	return ""
}

// isStatic reports whether an object is a NodePool with a fixed number of nodes.
func isStatic(o *migrate.Object) bool {
	spec, _ := o.Value["spec"].(map[string]any)
	return o.Value["kind"] == "NodePool" && spec["replicas"] != nil
}

// changesOf returns the objects that a forecast supports.
func changesOf(r *migrate.Result) ([]whatif.Change, error) {
	var b bytes.Buffer
	for _, o := range r.Objects {
		if !slices.Contains([]any{"NodePool", "EC2NodeClass", "DaemonSet", "Deployment"}, o.Value["kind"]) {
			continue
		}
		text, err := json.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Title(), err)
		}
		b.WriteString("---\n")
		b.Write(text)
		b.WriteByte('\n')
	}
	return whatif.Manifests(&b, "what was migrated")
}

// text formats the bill as a part of the report.
func (b *bill) text() string {
	var out strings.Builder
	out.WriteString("The pods of today on the new pools\n")
	if b.Today.Nodes != nil {
		fmt.Fprintf(&out, "  %-12s  %s\n", "today", b.Today.text())
	}
	for _, f := range b.Then {
		fmt.Fprintf(&out, "  %-12s  %s\n", f.Pools, f.text())
		for i, u := range f.Unplaced {
			if i == fewPods {
				fmt.Fprintf(&out, "  %-12s  … and %s more; -o json lists all\n", "", reason.Count(len(f.Unplaced)-i, "pod"))
				break
			}
			fmt.Fprintf(&out, "  %-12s  pod %s\n", "no node", u)
		}
	}
	if b.Unknown != "" {
		fmt.Fprintf(&out, "  %-12s  %s\n", "not known", b.Unknown)
	}
	if b.Prices != "" {
		fmt.Fprintf(&out, "  (instances alone, by %s)\n", b.Prices)
	}
	if b.Needs != "" {
		fmt.Fprintf(&out, "  (%s)\n", b.Needs)
	}
	return printable.Lines(out.String())
}

// fewPods is how many pods without a node are listed.
const fewPods = 10

func (n *nodes) text() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(n.Nodes)) {
		parts = append(parts, fmt.Sprintf("%d × %s", n.Nodes[name], name))
	}
	if parts == nil {
		return "no nodes: other nodes have room for the pods"
	}
	return fmt.Sprintf("%s: %s a month", strings.Join(parts, ", "), reason.Money(n.DollarsPerMonth, 2))
}
