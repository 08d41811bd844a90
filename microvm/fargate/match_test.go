package fargate

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
)

func ownedBy(p *corev1.Pod, kind string) *corev1.Pod {
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "o", Controller: &yes}}
	return p
}

func TestWhichProfileHasAPod(t *testing.T) {
	annotated := func(p *corev1.Pod) *corev1.Pod {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, ComputeType, ComputeTypeEC2)
		return p
	}
	bound := pod("prod")
	bound.Spec.NodeName = "n"
	ending := profile("a-ending", "prod")
	ending.DeletionTimestamp = &metav1.Time{}
	for name, c := range map[string]struct {
		profiles []*v1alpha1.FargateProfile
		pod      *corev1.Pod
		want     string
		note     string
	}{
		"a namespace alone takes every pod of it": {
			[]*v1alpha1.FargateProfile{profile("a", "prod")},
			labelled(pod("prod"), "x=y"), "a", "",
		},
		"another namespace": {
			[]*v1alpha1.FargateProfile{profile("a", "prod")},
			pod("dev"),
			"", "",
		},
		"a wildcard namespace, as in the articles": {[]*v1alpha1.FargateProfile{profile("study_wildcard",
			"study-*")}, pod("study-1"), "study_wildcard", ""},
		"? is exactly one character": {
			[]*v1alpha1.FargateProfile{profile("a", "prod?")},
			pod("prod"), "", "",
		},
		"all labels of a selector are needed": {
			[]*v1alpha1.FargateProfile{profile("a", "prod x=y z=w")},
			labelled(pod("prod"), "x=y"), "", "",
		},
		"all labels are there": {
			[]*v1alpha1.FargateProfile{profile("a", "prod x=y z=*")},
			labelled(pod("prod"), "x=y", "z="), "a", "",
		},
		"wildcards in keys": {
			[]*v1alpha1.FargateProfile{profile("a", "prod app*=w?b")},
			labelled(pod("prod"), "app.kubernetes.io/name=web"), "a", "",
		},
		"any selector suffices": {
			[]*v1alpha1.FargateProfile{profile("a", "dev", "prod")},
			pod("prod"), "a", "",
		},
		"a selector without namespace selects nothing": {[]*v1alpha1.FargateProfile{{Spec: v1alpha1.FargateProfileSpec{Selectors: []v1alpha1.FargateProfileSelector{{}}}}}, pod("prod"), "", ""},
		"of several the first by name, as the guide says": {[]*v1alpha1.FargateProfile{
			profile("prod-workload", "prod"),
			profile("beta-workload", "prod"),
		}, pod("prod"), "beta-workload", ""},
		"the pod's label chooses among them": {[]*v1alpha1.FargateProfile{
			profile("prod-workload", "prod"),
			profile("beta-workload", "prod"),
		}, labelled(pod("prod"), ProfileLabel+"=prod-workload"), "prod-workload", ""},
		"the named profile has to select it all the same": {[]*v1alpha1.FargateProfile{
			profile("a", "prod"),
			profile("b", "dev"),
		}, labelled(pod("prod"), ProfileLabel+"=b"), "", "none of its selectors fits the pod"},
		"a named profile that is not there": {
			[]*v1alpha1.FargateProfile{profile("a", "prod")},
			labelled(pod("prod"), ProfileLabel+"=b"), "", "which does not exist",
		},
		"CoreDNS opts out by its annotation": {
			[]*v1alpha1.FargateProfile{profile("a", "kube-system")},
			annotated(pod("kube-system")), "", "",
		},
		"pods of DaemonSets stay on shared nodes": {
			[]*v1alpha1.FargateProfile{profile("a", "prod")},
			ownedBy(pod("prod"), "DaemonSet"), "", "",
		},
		"static pods belong to their node": {
			[]*v1alpha1.FargateProfile{profile("a", "prod")},
			ownedBy(pod("prod"), "Node"), "", "",
		},
		"pods of ReplicaSets do not": {
			[]*v1alpha1.FargateProfile{profile("a", "prod")},
			ownedBy(pod("prod"), "ReplicaSet"), "a", "",
		},
		"a pod that is bound already": {[]*v1alpha1.FargateProfile{profile("a", "prod")}, bound, "", ""},
		"a profile that is being deleted takes no new pod": {
			[]*v1alpha1.FargateProfile{ending, profile("b", "prod")},
			pod("prod"), "b", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Choose(c.profiles, c.pod)
			has := ""
			if got.Profile != nil {
				has = got.Profile.Name
			}
			if has != c.want || (got.Note == "") != (c.note == "") || !strings.Contains(got.Note, c.note) {
				t.Errorf("profile %q has the pod, want %q; note %q, want %q", has, c.want, got.Note, c.note)
			}
		})
	}
}

func TestAProfileForTheWholeClusterIsWarnedOf(t *testing.T) {
	for selector, want := range map[string]string{
		"*":                   "selects every pod of the cluster",
		"kube-*":              "also matches kube-system",
		"?ube-system":         "also matches kube-system",
		"kube-system":         "every new pod of kube-system",
		"kube-system app=dns": "",
		"* team=web":          "",
		"study-*":             "",
	} {
		got := Advise(&profile("p", selector).Spec)
		if len(got) > 1 || (len(got) == 0) != (want == "") || !strings.Contains(strings.Join(got, ""), want) {
			t.Errorf("%s: %q, want %q", selector, got, want)
		}
	}
}
