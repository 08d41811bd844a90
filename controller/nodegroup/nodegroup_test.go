package nodegroup

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/api/v1alpha1"
)

// The flag is Cluster Autoscaler's, whose values of tags say nothing.
func TestTheDiscoveryFlag(t *testing.T) {
	for spec, want := range map[string][]string{
		"asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/prod": {
			"k8s.io/cluster-autoscaler/enabled", "k8s.io/cluster-autoscaler/prod",
		},
		"asg:tag=team=web": {"team"},
		"asg:tag=":         nil, "asg:tag=a,,b": nil, "mig:namePrefix=x": nil, "k8s.io/x": nil,
	} {
		got, err := ParseDiscovery(spec)
		if (err != nil) != (want == nil) || want != nil && !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", spec, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), "asg:tag=KEY,KEY") {
			t.Errorf("%s: the error does not say what to write: %v", spec, err)
		}
	}
}

// Names of groups may be what names of objects may not. Different groups have different objects.
func TestNamesOfNodeGroups(t *testing.T) {
	long := strings.Repeat("a", 200)
	valid, seen := regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`), map[string]string{}
	for _, group := range []string{"web", "Web", "web_", "web.nodes", "web nodes", long, long + "b", "日本", "-"} {
		name := objectName(group)
		if !valid.MatchString(name) || len(name) > 40 || seen[name] != "" {
			t.Errorf("%q is %q, as is %q", group, name, seen[name])
		}
		seen[name] = group
	}
	if objectName("web") != "web" {
		t.Error("a name that is one already has become another")
	}
}

// The NodePool of a group has the labels of its tags but those that others set.
func TestTheNodePoolOfAGroup(t *testing.T) {
	group := &v1alpha1.NodeGroup{}
	group.Name = "web"
	group.Status.Labels = map[string]string{"team": "a", "kubernetes.io/arch": "amd64", "karpenter.sh/x": "y"}
	p := newPool(group)
	if len(p.Spec.Template.Labels) != 1 || p.Spec.Template.Labels["team"] != "a" {
		t.Errorf("labels %v", p.Spec.Template.Labels)
	}
	if ref := p.Spec.Template.Spec.NodeClassRef; ref.Group != "nodeless.sh" || ref.Kind != "NodeGroup" || ref.Name != "web" {
		t.Errorf("class %+v", ref)
	}
}
