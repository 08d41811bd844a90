package roll

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
)

// begin is the time at which the stories of these tests begin.
var begin = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// described returns a group web of launch template lt-web, with two instances of version 1, as AWS describes it.
func described(version string) *scalingtypes.AutoScalingGroup {
	made := func(id string) scalingtypes.Instance {
		return scalingtypes.Instance{
			InstanceId: &id, LifecycleState: scalingtypes.LifecycleStateInService,
			LaunchTemplate: &scalingtypes.LaunchTemplateSpecification{
				LaunchTemplateId: aws.String("lt-web"), Version: aws.String("1"),
			},
		}
	}
	return &scalingtypes.AutoScalingGroup{
		AutoScalingGroupName: aws.String("web"), MinSize: aws.Int32(1), MaxSize: aws.Int32(4), DesiredCapacity: aws.Int32(2),
		LaunchTemplate: &scalingtypes.LaunchTemplateSpecification{
			LaunchTemplateId: aws.String("lt-web"), Version: aws.String(version),
		},
		Instances: []scalingtypes.Instance{made("i-1"), made("i-2")},
	}
}

// nodesOf returns the Ready Nodes of instances, created at begin.
func nodesOf(instances ...string) map[string]*corev1.Node {
	out := map[string]*corev1.Node{}
	for _, id := range instances {
		out[id] = &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node-" + id, CreationTimestamp: metav1.NewTime(begin)},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: "Ready", Status: "True"}}},
		}
	}
	return out
}

func web(a *scalingtypes.AutoScalingGroup, nodes map[string]*corev1.Node) *Group {
	launched := map[string]time.Time{"i-1": begin, "i-2": begin.Add(2 * time.Minute)}
	g := newGroup(a, nodes, launched, launchOf(a, map[string]*versions{"lt-web": {latest: 2, isDefault: 1}, "lt-gone": nil}))
	return &g
}

func TestANodeNeedsAnUpdateIfTheGroupLaunchesAnother(t *testing.T) {
	for version, why := range map[string]string{
		"1": "", "$Default": "", "": "",
		"2": "version 1 of the launch template, the group has 2", "$Latest": "version 1 of the launch template, the group has 2",
	} {
		if got := web(described(version), nil).Members[0].Outdated; got != why {
			t.Errorf("the group has version %q: %q, want %q", version, got, why)
		}
	}

	other := described("1")
	other.LaunchTemplate = nil
	other.MixedInstancesPolicy = &scalingtypes.MixedInstancesPolicy{LaunchTemplate: &scalingtypes.LaunchTemplate{
		LaunchTemplateSpecification: &scalingtypes.LaunchTemplateSpecification{LaunchTemplateId: aws.String("lt-web")},
	}}
	if got := web(other, nil).Members[0].Outdated; got != "" {
		t.Errorf("the policy has the same template: %q", got)
	}

	configured := described("1")
	configured.LaunchTemplate, configured.LaunchConfigurationName = nil, aws.String("new")
	configured.Instances[0].LaunchConfigurationName = aws.String("new")
	g := web(configured, nil)
	if g.Members[0].Outdated != "" || !strings.Contains(g.Members[1].Outdated, "launch configuration deleted") {
		t.Errorf("of a launch configuration: %+v", g.Members)
	}
}

func TestAForcedRollIsOfTheNodesThatAreOlder(t *testing.T) {
	a, nodes := described("1"), nodesOf("i-1", "i-2")
	a.Tags = []scalingtypes.TagDescription{{
		Key: aws.String(v1alpha1.RolledAt), Value: aws.String(begin.Add(time.Minute).Format(time.RFC3339)),
	}}
	nodes["i-2"].CreationTimestamp = metav1.NewTime(begin.Add(2 * time.Minute))
	g := web(a, nodes)
	if old := g.outdated(); len(old) != 1 || old[0].Instance != "i-1" || !g.rolling() {
		t.Errorf("need an update: %+v, rolling %v", old, g.rolling())
	}
	bastions := web(a, nil) // whose age only EC2 tells
	if old := bastions.outdated(); len(old) != 1 || old[0].Instance != "i-1" || !bastions.rolling() {
		t.Errorf("instances without a node need an update: %+v, rolling %v", old, bastions.rolling())
	}
}

// A forced roll that was interrupted goes on while the last old instance is detached; it does not begin again.
func TestAForcedRollGoesOnWithADetachedInstance(t *testing.T) {
	a, nodes := described("1"), nodesOf("i-1", "i-2")
	a.Tags = []scalingtypes.TagDescription{{
		Key: aws.String(v1alpha1.RolledAt), Value: aws.String(begin.Add(time.Minute).Format(time.RFC3339)),
	}}
	later := begin.Add(2 * time.Minute)
	for _, id := range []string{"i-1", "i-2"} {
		nodes[id].CreationTimestamp = metav1.NewTime(later)
	}
	for name, c := range map[string]struct {
		launched time.Time
		nodes    map[string]*corev1.Node // of the detached instance
		rolling  bool
	}{
		"an old node":                      {later, nodesOf("i-9"), true},
		"old, without a node":              {begin, nil, true},
		"of a roll that was not forced":    {later, nil, false},
		"no node, and no time of a launch": {time.Time{}, nil, false},
	} {
		g := web(a, nodes)
		g.adopt(map[string]detached{"i-9": {"web", c.launched}}, c.nodes)
		if g.rolling() != c.rolling {
			t.Errorf("%s: rolling %v, want %v", name, g.rolling(), c.rolling)
		}
	}
}

func TestAGroupThatCannotLaunchSaysWhy(t *testing.T) {
	missing, none, suspended := described("1"), described("1"), described("1")
	missing.LaunchTemplate.LaunchTemplateId = aws.String("lt-gone")
	none.LaunchTemplate = nil
	suspended.SuspendedProcesses = []scalingtypes.SuspendedProcess{{ProcessName: aws.String("Launch")}}
	for want, a := range map[string]*scalingtypes.AutoScalingGroup{
		"lt-gone) does not exist; give it one":                  missing,
		"neither a launch template nor a launch configuration;": none,
		"resume-processes --auto-scaling-group-name web":        suspended,
	} {
		if g := web(a, nil); !strings.Contains(g.Problem, want) || g.Row().Status != Broken {
			t.Errorf("%q (%s), want %q", g.Problem, g.Row().Status, want)
		}
	}
}

func TestTheFirstNodeIsReplacedAlone(t *testing.T) {
	a := described("2")
	g := web(a, nodesOf("i-1", "i-2"))
	if n := len(g.next(2)); n != 1 {
		t.Errorf("%d nodes are replaced though no new one has ever been Ready", n)
	}
	a.Instances[0].LaunchTemplate.Version = aws.String("2")
	a.Instances = append(a.Instances, described("1").Instances...)
	a.Instances[2].InstanceId, a.Instances[3].InstanceId = aws.String("i-3"), aws.String("i-4")
	if n := len(web(a, nodesOf("i-1", "i-2", "i-3", "i-4")).next(2)); n != 2 {
		t.Errorf("%d nodes are replaced at once, want the surge", n)
	}
}

func TestDetachedInstancesComeFirst(t *testing.T) {
	g := web(described("2"), nodesOf("i-1", "i-2"))
	g.adopt(map[string]detached{"i-9": {group: "web"}, "i-8": {group: "another"}, "i-2": {group: "web"}}, nil)
	old := g.outdated()
	if len(old) != 3 || old[0].Instance != "i-9" || !old[0].Detached || old[2].Detached {
		t.Errorf("the order is %+v", old)
	}
	if g.Row().Status != Updating {
		t.Errorf("status %s, though an instance is detached", g.Row().Status)
	}
}

func TestAGroupIsValidWithItsTargetReady(t *testing.T) {
	a, nodes := described("1"), nodesOf("i-1", "i-2")
	g := web(a, nodes)
	g.adopt(map[string]detached{"i-9": {group: "web"}}, nil)
	if why := g.notReady(); why != "" {
		t.Errorf("not ready: %s", why)
	}
	nodes["i-2"].Status.Conditions[0].Status = "False"
	if why := web(a, nodes).notReady(); why != "node node-i-2 is not Ready" {
		t.Errorf("with a node that is not Ready: %q", why)
	}
	if why := web(described("2"), nodes).notReady(); why != "" {
		t.Errorf("a broken node that is to be replaced stops the roll: %s", why)
	}
	delete(nodes, "i-2")
	if why := web(a, nodes).notReady(); why != "instance i-2 has not joined the cluster yet" {
		t.Errorf("without a node: %q", why)
	}
	a.Instances = a.Instances[:1]
	if why := web(a, nodes).notReady(); why != "1 of 2 instances are in service" {
		t.Errorf("with one instance: %q", why)
	}
}

func TestGroupsAreRolledInTheOrderOfKops(t *testing.T) {
	var groups []Group
	for _, role := range []string{"", "apiserver", "master", "bastion"} {
		a := described("1")
		a.AutoScalingGroupName = aws.String("a-" + role)
		a.Tags = []scalingtypes.TagDescription{
			{Key: aws.String("k8s.io/role/" + role)}, {Key: aws.String("kops.k8s.io/instancegroup"), Value: aws.String("g-" + role)},
		}
		groups = append(groups, *web(a, nil))
	}
	sortGroups(groups)
	var order []string
	for i := range groups {
		order = append(order, groups[i].Title())
	}
	if got := strings.Join(order, " "); got != "g-bastion g-master g-apiserver g-" {
		t.Errorf("the order is %s", got)
	}
	_, err := chosen("group", groups, func(g *Group) []string { return []string{g.Title(), g.Name} }, []string{"a-master", "x"})
	if err == nil || err.Error() != "group not found: x; there are: g-bastion, g-master, g-apiserver, g-" {
		t.Errorf("an unknown name: %v", err)
	}
}

func TestACriticalPodThatDoesNotRunStopsARoll(t *testing.T) {
	pod := func(class, node string, ready corev1.ConditionStatus) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "p"},
			Spec:       corev1.PodSpec{PriorityClassName: class, NodeName: node},
			Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
		}
	}
	for _, c := range []struct {
		pod   corev1.Pod
		stops bool
	}{
		{pod("system-cluster-critical", "", "False"), true},
		{pod("system-node-critical", "ours", "False"), true},
		{pod("system-node-critical", "another", "False"), false},
		{pod("system-node-critical", "ours", "True"), false},
		{pod("", "ours", "False"), false},
	} {
		if got := critical([]corev1.Pod{c.pod}, map[string]bool{"ours": true}); (got != "") != c.stops {
			t.Errorf("%s on %q: %q, want it to stop: %v", c.pod.Spec.PriorityClassName, c.pod.Spec.NodeName, got, c.stops)
		}
	}
}
