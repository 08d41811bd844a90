package whatif

import (
	"encoding/json"
	"slices"
	"strings"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/eksv1"
	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/cloud/aws"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// madeFor is the annotation with which the forecast's own DaemonSet pods record their template.
const madeFor = "forecast.nodeless.sh/template"

// before is the cluster before the change.
type before struct {
	pools   map[string]*karpv1.NodePool
	classes map[string]*ec2v1.EC2NodeClass
	daemons map[string]string // fingerprints, by namespace/name
	changed bool              // false if there is no change at all
}

func objectsBefore(objects []client.Object) before {
	f := before{
		pools: map[string]*karpv1.NodePool{}, classes: map[string]*ec2v1.EC2NodeClass{},
		daemons: map[string]string{}, changed: objects != nil,
	}
	for _, o := range objects {
		switch o := o.(type) {
		case *karpv1.NodePool:
			f.pools[o.Name] = o
		case *ec2v1.EC2NodeClass, *eksv1.NodeClass, *v1alpha1.NodeGroup:
			name, class := capture.ClassOf(o)
			f.classes[name] = class
		case *appsv1.DaemonSet:
			f.daemons[o.Namespace+"/"+o.Name] = fingerprint(o)
		}
	}
	return f
}

// fingerprint identifies a DaemonSet's template by the fields that decisions depend on.
func fingerprint(ds *appsv1.DaemonSet) string {
	spec := ds.Spec.Template.Spec.DeepCopy()
	translate.LeanContainers(spec.InitContainers)
	translate.LeanContainers(spec.Containers)
	// Plain types always marshal.
	text, _ := json.Marshal(corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: ds.Spec.Template.Labels},
		Spec:       *spec,
	})
	return string(text)
}

// outdated reports whether a DaemonSet's pod was made from another template.
func (f *before) outdated(ds *appsv1.DaemonSet, pod *corev1.Pod) bool {
	was, ours := pod.Annotations[madeFor]
	if !ours {
		var known bool
		if was, known = f.daemons[ds.Namespace+"/"+ds.Name]; !known {
			return false
		}
	}
	return was != fingerprint(ds)
}

// drift marks nodes that no longer match their changed pool or class, by the rules of translate.PoolDrift and
// cloud/aws. Claims of unchanged pools and classes keep the drift that they report.
func (r *run) drift() {
	if !r.was.changed {
		return
	}
	for _, claim := range r.claims {
		pool := r.pools[claim.Labels[karpv1.NodePoolLabelKey]]
		if pool == nil || claim.DeletionTimestamp != nil || claim.Status.ProviderID == "" || made(claim) || ofGroup(claim) {
			continue
		}
		drifted := conditions.IsTrue(claim, karpv1.ConditionTypeDrifted)
		if drifted && !r.was.mayMatchAgain(claim, pool) {
			continue
		}
		reason := r.driftOf(claim, pool)
		if drifted == (reason != "") {
			continue
		}
		claim = claim.DeepCopy()
		claim.ResourceVersion = ""
		if reason != "" {
			setTrue(claim, karpv1.ConditionTypeDrifted, reason, metav1.NewTime(r.now()))
		} else {
			claim.Status.Conditions = slices.DeleteFunc(claim.Status.Conditions,
				func(c statusCondition) bool { return c.Type == karpv1.ConditionTypeDrifted })
		}
		r.put(claim)
	}
}

// ofGroup reports whether a claim's instance belongs to an Auto Scaling group. Such an instance never drifts
// (controller/nodeclaim).
func ofGroup(claim *karpv1.NodeClaim) bool {
	ref := cluster.ClassRef(claim.Spec.NodeClassRef)
	return v1alpha1.IsNodeGroup(ref.Group, ref.Kind)
}

// mayMatchAgain reports whether a claim drifted from its pool, which the change alters.
func (f *before) mayMatchAgain(claim *karpv1.NodeClaim, pool *karpv1.NodePool) bool {
	was, found := f.pools[pool.Name], conditions.Of(claim, karpv1.ConditionTypeDrifted)
	return was != nil && was != pool &&
		(found.Reason == translate.NodePoolDrifted || found.Reason == translate.RequirementsDrifted)
}

// made reports whether the forecast created a claim, which then matches its pool and class.
func made(claim *karpv1.NodeClaim) bool {
	return strings.HasPrefix(string(claim.UID), string(uidOf("")))
}

func (r *run) driftOf(claim *karpv1.NodeClaim, pool *karpv1.NodePool) string {
	if was := r.was.pools[pool.Name]; was != nil && was != pool {
		before := was.Hash()
		if kept := claim.Annotations[karpv1.NodePoolHashAnnotationKey]; kept != "" &&
			claim.Annotations[karpv1.NodePoolHashVersionAnnotationKey] == karpv1.NodePoolHashVersion {
			before = kept
		}
		// The requirements of an invalid pool are unknown.
		want, _ := translate.Requirements(pool.Spec.Template.Spec.Requirements)
		if reason, _ := translate.PoolDrift(claim, pool.Name, before, pool.Hash(), want); reason != "" {
			return reason
		}
	}
	ref := cluster.ClassRef(claim.Spec.NodeClassRef)
	class, was := r.Cluster.Class(ref), r.was.classes[aws.ClassName(ref)]
	if class == nil || was == nil || class == was {
		return ""
	}
	return classDrift(claim, class, was)
}

// classDrift says why a node that matched its class before the change no longer does.
func classDrift(claim *karpv1.NodeClaim, class, was *ec2v1.EC2NodeClass) string {
	hash, version := aws.HashKeys(was)
	kept, now := claim.Annotations[hash], was.Annotations[hash]
	drifted := kept != "" && now != "" && kept != now && claim.Annotations[version] == was.Annotations[version]
	// Compare without certificates: only the controller knows those that the annotations were made with.
	if drifted || aws.ClassHash(was, "") != aws.ClassHash(class, "") {
		return "NodeClassDrift"
	}
	image := func(a ec2v1.AMI) bool { return a.ID == claim.Status.ImageID }
	if claim.Status.ImageID != "" && len(class.Status.AMIs) > 0 && !slices.ContainsFunc(class.Status.AMIs, image) {
		return "AMIDrift"
	}
	if groups(class) != groups(was) {
		return "SecurityGroupDrift"
	}
	here := func(s ec2v1.Subnet) bool { return s.Zone == claim.Labels[corev1.LabelTopologyZone] }
	if len(class.Status.Subnets) > 0 && !slices.ContainsFunc(class.Status.Subnets, here) {
		return "SubnetDrift"
	}
	return ""
}

func groups(class *ec2v1.EC2NodeClass) string {
	var ids []string
	for _, g := range class.Status.SecurityGroups {
		ids = append(ids, g.ID)
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

// drainOrphans drains the nodes of deleted pools, because Kubernetes deletes their claims.
func (r *run) drainOrphans() {
	for name, claim := range r.claims {
		pool := claim.Labels[karpv1.NodePoolLabelKey]
		if r.was.pools[pool] != nil && r.pools[pool] == nil {
			r.startDrain(name)
		}
	}
}
