package translate

import (
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/eksv1"
	"github.com/nodeless/nodeless/engine/model"
)

// setClassLabel adds the label that names the node class of a NodeClaim and its Node, such as
// karpenter.k8s.aws/ec2nodeclass.
func setClassLabel(labels map[string]string, ref *karpv1.NodeClassReference) {
	if ref != nil && ref.Name != "" {
		labels[karpv1.NodeClassLabelKey(ref.GroupKind())] = ref.Name
	}
}

// NewClaim returns the NodeClaim for a launch, as Karpenter would write it: labels, hash, owner and finalizer included.
// chosen is the type of the launch's chosen offering: labels that it determines are left to the cloud.
func (n *Names) NewClaim(name string, np *karpv1.NodePool, l model.Launch, chosen *model.InstanceType,
	e Expected,
) *karpv1.NodeClaim {
	t := &np.Spec.Template
	labels := customLabels(l.Requirements, chosen)
	maps.Copy(labels, t.Labels)
	labels[karpv1.NodePoolLabelKey] = np.Name
	setClassLabel(labels, t.Spec.NodeClassRef)
	annotations := map[string]string{}
	maps.Copy(annotations, t.Annotations)
	annotations[karpv1.NodePoolHashAnnotationKey] = np.Hash()
	annotations[karpv1.NodePoolHashVersionAnnotationKey] = karpv1.NodePoolHashVersion
	annotations[AnnotationLaunch] = l.ID
	annotations[AnnotationExpected] = n.writeExpected(e)
	annotations[karpv1.NodeClaimMinValuesRelaxedAnnotationKey] = strconv.FormatBool(len(l.Relaxed) > 0)
	block := true
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: labels, Annotations: annotations,
			Finalizers: []string{karpv1.TerminationFinalizer},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "karpenter.sh/v1", Kind: "NodePool", Name: np.Name, UID: np.UID, BlockOwnerDeletion: &block,
			}},
		},
		Spec: karpv1.NodeClaimSpec{
			Taints: t.Spec.Taints, StartupTaints: t.Spec.StartupTaints,
			Requirements:           ToSpec(claimable(l.Requirements)),
			Resources:              karpv1.ResourceRequirements{Requests: n.ResourceList(l.Requests)},
			NodeClassRef:           t.Spec.NodeClassRef,
			TerminationGracePeriod: gracePeriod(t),
			ExpireAfter:            t.Spec.ExpireAfter,
		},
	}
}

// autoGracePeriod is how long nodes of EKS Auto Mode may drain unless their pool says otherwise (Amazon EKS user
// guide, "Create a Node Pool for EKS Auto Mode").
const autoGracePeriod = 24 * time.Hour

// gracePeriod returns how long the nodes of a pool may drain; nil = until every pod has left.
func gracePeriod(t *karpv1.NodeClaimTemplate) *metav1.Duration {
	class := t.Spec.NodeClassRef
	if t.Spec.TerminationGracePeriod == nil && class != nil && class.Group == eksv1.GroupVersion.Group {
		return &metav1.Duration{Duration: autoGracePeriod}
	}
	return t.Spec.TerminationGracePeriod
}

// claimable omits the requirements that the API refuses in a claim: the name of the node, the host name, and all but
// two karpenter.sh labels.
func claimable(rs model.Requirements) model.Requirements {
	return slices.DeleteFunc(slices.Clone(rs), func(r model.Requirement) bool {
		if r.Key == model.NodeNameField {
			return true
		}
		return r.Key != karpv1.NodePoolLabelKey && r.Key != karpv1.CapacityTypeLabelKey &&
			karpv1.IsRestrictedLabel(r.Key) != nil
	})
}

// customLabels gives a value to each label that pods or pool require and neither type, offering nor cloud determines.
func customLabels(rs model.Requirements, chosen *model.InstanceType) map[string]string {
	out := map[string]string{}
	for _, r := range rs {
		if r.Key == model.NodeNameField || karpv1.WellKnownLabels.Has(r.Key) || karpv1.IsRestrictedLabel(r.Key) != nil {
			continue
		}
		if chosen != nil {
			if _, decided := chosen.Requirements.Get(r.Key); decided {
				continue
			}
		}
		if v, ok := anyValue(r); ok {
			out[r.Key] = v
		}
	}
	return out
}

// anyValue returns the first value that satisfies r, in a fixed order; none if the label may be absent, or if no value
// satisfies r.
func anyValue(r model.Requirement) (string, bool) {
	switch {
	case r.AllowsAbsence() || r.Impossible():
		return "", false
	case !r.Complement:
		return r.Values[0], true
	case r.Gte == nil && r.Lte == nil:
		v := "true"
		for !r.Has(v) {
			v += "-true"
		}
		return v, true
	}
	var n, step int64
	if r.Gte != nil {
		n, step = *r.Gte, 1
	} else {
		n, step = *r.Lte, -1
	}
	for range len(r.Values) + 1 {
		if v := strconv.FormatInt(n, 10); r.Has(v) {
			return v, true
		}
		n += step
	}
	return "", false
}
