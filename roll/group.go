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
	Name  string // of the Auto Scaling group
	Alias string // of the node group of EKS or the InstanceGroup of kops that it belongs to; "" if it does to none
	Role  fromaws.Role

	Min, Target, Max int
	Members          []Member // by instance
	RolledAt         time.Time
	Problem          string // why it cannot launch instances; "" if it can
}

// Member is an instance of a group.
type Member struct {
	Instance  string
	Weight    int // units of the group's target; 1 where it is counted in instances
	InService bool
	Detached  bool         // taken out of the group, and to be terminated
	Node      *corev1.Node // nil if it has not joined the cluster
	Outdated  string       // why it needs an update; "" if it does not
}

// String names a member by its node, if it has one.
func (m *Member) String() string {
	if m.Node == nil {
		return "instance " + m.Instance
	}
	return fmt.Sprintf("node %s (%s)", m.Node.Name, m.Instance)
}

// Title names a group as people call it.
func (g *Group) Title() string { return cmp.Or(g.Alias, g.Name) }

// newGroup reads what AWS says of a group, with the nodes of instances by their IDs.
func newGroup(a *scalingtypes.AutoScalingGroup, nodes map[string]*corev1.Node, launch launch) Group {
	g := Group{
		Name: aws.ToString(a.AutoScalingGroupName), Role: fromaws.RoleOf(a.Tags), Min: int(aws.ToInt32(a.MinSize)),
		Target: int(aws.ToInt32(a.DesiredCapacity)), Max: int(aws.ToInt32(a.MaxSize)), Problem: launch.problem,
	}
	for _, t := range a.Tags {
		switch value := aws.ToString(t.Value); aws.ToString(t.Key) {
		case migrate.ManagedTag, "kops.k8s.io/instancegroup":
			g.Alias = value
		case v1alpha1.RolledAt:
			g.RolledAt, _ = time.Parse(time.RFC3339, value) // a tag of another form is no roll's
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
		m := Member{
			Instance: aws.ToString(in.InstanceId), InService: in.LifecycleState == scalingtypes.LifecycleStateInService,
			Node: nodes[aws.ToString(in.InstanceId)], Weight: 1,
		}
		if weight, err := strconv.Atoi(aws.ToString(in.WeightedCapacity)); err == nil {
			m.Weight = weight
		}
		m.Outdated = launch.outdated(in)
		if m.Outdated == "" && m.Node != nil {
			m.Outdated = olderThanRoll(m.Node.CreationTimestamp.Time, g.RolledAt)
		}
		g.Members = append(g.Members, m)
	}
	return g
}

// sortGroups puts groups into the order in which kops rolls them, and their members into that of their instances.
func sortGroups(groups []Group) {
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), strings.Compare(a.Title(), b.Title()), strings.Compare(a.Name, b.Name))
	})
	for i := range groups {
		slices.SortFunc(groups[i].Members, func(a, b Member) int { return strings.Compare(a.Instance, b.Instance) })
	}
}

// ready reports whether a member needs nothing: it serves, and its node is Ready. The instances of bastions have none.
func (g *Group) ready(m *Member) bool {
	return m.Outdated == "" && m.InService && (g.Role == fromaws.Bastion || m.Node != nil && conditions.NodeReady(m.Node))
}

// outdated returns the members that need an update, detached ones first: they are the ones that a roll began with.
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

// rolling reports whether a forced roll has not ended yet: a member is older than it.
func (g *Group) rolling() bool {
	return slices.ContainsFunc(g.Members, func(m Member) bool {
		return m.Node != nil && olderThanRoll(m.Node.CreationTimestamp.Time, g.RolledAt) != ""
	})
}

// next returns the members to replace now, at most so many: one alone as long as none is new, so that a template whose
// nodes never become Ready costs one node. Those that AWS has not put into service yet come later.
func (g *Group) next(surge int) []*Member {
	old := slices.DeleteFunc(g.outdated(), func(m *Member) bool { return !m.Detached && !m.InService })
	n := max(surge, 1)
	if !slices.ContainsFunc(g.Members, func(m Member) bool { return g.ready(&m) }) {
		n = 1
	}
	return old[:min(n, len(old))]
}

// Row returns the group's line of the table.
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

// notReady says what of the group is not as it should be; "" if all is: its target is in service, and has Ready nodes.
// Detached instances do not count. Nodes that are to be replaced may be as they like.
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
