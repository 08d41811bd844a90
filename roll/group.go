package roll

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/kit/conditions"
	"github.com/nodeless/nodeless/migrate"
	"github.com/nodeless/nodeless/migrate/fromaws"
)

// Group is an Auto Scaling group with its instances and their nodes.
type Group struct {
	Name  string // name of the Auto Scaling group
	Alias string // its EKS node group or kops InstanceGroup; "" if it belongs to neither
	Role  fromaws.Role

	Min, Target, Max int
	Members          []Member // sorted by instance ID
	RolledAt         time.Time
	Problem          string // why it cannot launch instances; "" if it can
}

// Member is an instance of a group.
type Member struct {
	Instance  string
	Weight    int // units of the group's target; 1 unless the instance has a weight
	InService bool
	Detached  bool         // detached from the group and yet to be terminated
	Node      *corev1.Node // nil if it has not joined the cluster
	Since     time.Time    // when the node was created, or the instance launched if it has no node; zero = unknown
	Outdated  string       // why it needs an update; "" if it does not
}

// String returns the names of the member's node and instance, or of the instance alone if it has no node.
func (m *Member) String() string {
	if m.Node == nil {
		return "instance " + m.Instance
	}
	return fmt.Sprintf("node %s (%s)", m.Node.Name, m.Instance)
}

// Title returns the group's alias, or its name if it has no alias.
func (g *Group) Title() string { return cmp.Or(g.Alias, g.Name) }

// newGroup builds a Group from its AWS description. nodes holds the nodes by instance ID, and launched when instances
// without a node were launched.
func newGroup(
	a *scalingtypes.AutoScalingGroup, nodes map[string]*corev1.Node, launched map[string]time.Time, launch launch,
) Group {
	g := Group{
		Name: aws.ToString(a.AutoScalingGroupName), Role: fromaws.RoleOf(a.Tags), Min: int(aws.ToInt32(a.MinSize)),
		Target: int(aws.ToInt32(a.DesiredCapacity)), Max: int(aws.ToInt32(a.MaxSize)), Problem: launch.problem,
	}
	for _, t := range a.Tags {
		switch value := aws.ToString(t.Value); aws.ToString(t.Key) {
		case migrate.ManagedTag, "kops.k8s.io/instancegroup":
			g.Alias = value
		case v1alpha1.RolledAt:
			g.RolledAt, _ = time.Parse(time.RFC3339, value) // a tag in another format is not a roll's
		}
	}
	for _, p := range a.SuspendedProcesses {
		if name := aws.ToString(p.ProcessName); name == "Launch" && g.Problem == "" {
			g.Problem = "its process Launch is suspended; resume it: aws autoscaling resume-processes " +
				"--auto-scaling-group-name " + g.Name + " --scaling-processes Launch"
		}
	}
	for i := range a.Instances {
		in := &a.Instances[i]
		state := string(in.LifecycleState)
		if strings.HasPrefix(state, "Terminat") || strings.HasPrefix(state, "Detach") {
			continue
		}
		id := aws.ToString(in.InstanceId)
		m := Member{
			Instance: id, InService: in.LifecycleState == scalingtypes.LifecycleStateInService,
			Node: nodes[id], Since: since(nodes[id], launched[id]), Weight: 1,
		}
		if weight, err := strconv.Atoi(aws.ToString(in.WeightedCapacity)); err == nil {
			m.Weight = weight
		}
		m.Outdated = launch.outdated(in)
		if m.Outdated == "" {
			m.Outdated = olderThanRoll(m.Since, g.RolledAt)
		}
		g.Members = append(g.Members, m)
	}
	return g
}

// since returns when a node was created, or when its instance was launched if it has no node.
func since(node *corev1.Node, launched time.Time) time.Time {
	if node == nil {
		return launched
	}
	return node.CreationTimestamp.Time
}

// sortGroups sorts groups into the order in which kops rolls them, and their members by instance ID.
func sortGroups(groups []Group) {
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), strings.Compare(a.Title(), b.Title()), strings.Compare(a.Name, b.Name))
	})
	for i := range groups {
		slices.SortFunc(groups[i].Members, func(a, b Member) int { return strings.Compare(a.Instance, b.Instance) })
	}
}

// ready reports whether a member is up to date, in service and has a Ready node. Bastions have no node.
func (g *Group) ready(m *Member) bool {
	return m.Outdated == "" && m.InService && (g.Role == fromaws.Bastion || m.Node != nil && conditions.NodeReady(m.Node))
}

// outdated returns the members that need an update, detached ones first: a roll has already started on these.
func (g *Group) outdated() []*Member {
	var detached, others []*Member
	for i := range g.Members {
		switch m := &g.Members[i]; {
		case m.Detached:
			detached = append(detached, m)
		case m.Outdated != "":
			others = append(others, m)
		}
	}
	return append(detached, others...)
}

// rolling reports whether a forced roll is still in progress: a member is older than the roll.
func (g *Group) rolling() bool {
	return slices.ContainsFunc(g.Members, func(m Member) bool {
		return olderThanRoll(m.Since, g.RolledAt) != ""
	})
}

// next returns the members to replace now: up to surge of them, and at least one. It returns only one until the group
// has its first up-to-date, ready member, so that a template whose nodes never become Ready costs one node. Members
// that are not in service yet are left for later.
func (g *Group) next(surge int) []*Member {
	old := slices.DeleteFunc(g.outdated(), func(m *Member) bool { return !m.Detached && !m.InService })
	n := max(surge, 1)
	if !slices.ContainsFunc(g.Members, func(m Member) bool { return g.ready(&m) }) {
		n = 1
	}
	return old[:min(n, len(old))]
}

// Row returns the group's row of the table.
func (g *Group) Row() Row {
	r := Row{Name: g.Title(), Status: Ready, Min: &g.Min, Target: g.Target, Max: &g.Max, Problem: g.Problem}
	for i := range g.Members {
		m := &g.Members[i]
		name := ""
		if m.Node != nil {
			r.Nodes++
			name = m.Node.Name
		}
		if g.ready(m) {
			r.Ready++
		}
		if m.Outdated == "" {
			continue
		}
		r.Outdated = append(r.Outdated, Outdated{name, m.Instance, m.Outdated})
		if r.Status != Updating {
			r.Status = NeedsUpdate
		}
		if m.Detached || m.Node != nil && slices.ContainsFunc(m.Node.Spec.Taints, isRollTaint) {
			r.Status = Updating
		}
	}
	r.NeedUpdate = len(r.Outdated)
	if r.Problem != "" {
		r.Status = Broken
	}
	return r
}

// notReady returns what keeps the group from being ready, or "" if nothing does: its attached instances are in
// service and meet its target, and the up-to-date ones have Ready nodes. Detached instances do not count, and
// outdated nodes need not be Ready.
func (g *Group) notReady() string {
	serving := 0
	for i := range g.Members {
		m := &g.Members[i]
		switch {
		case m.Detached:
			continue
		case !m.InService:
			return fmt.Sprintf("instance %s is not in service yet", m.Instance)
		case g.Role == fromaws.Bastion || m.Outdated != "":
		case m.Node == nil:
			return fmt.Sprintf("instance %s has not joined the cluster yet", m.Instance)
		case !conditions.NodeReady(m.Node):
			return fmt.Sprintf("node %s is not Ready", m.Node.Name)
		}
		serving += m.Weight
	}
	if serving < g.Target {
		return fmt.Sprintf("%d of %d instances are in service", serving, g.Target)
	}
	return ""
}
