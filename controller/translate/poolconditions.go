package translate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/awslabs/operatorpkg/status"
	"github.com/nodeless/nodeless/api/eksv1"
	"github.com/nodeless/nodeless/engine/spelling"
)

// keyDomains are domains whose labels have a defined meaning. ownDomains, below them, are for labels of users
// (Kubernetes documentation, "Well-Known Labels, Annotations and Taints").
var (
	keyDomains = []string{"eks.amazonaws.com", "k8s.aws", "karpenter.sh", "kubernetes.io", "k8s.io"}
	ownDomains = []string{"node-restriction.kubernetes.io", "kops.k8s.io"}
)

// ConditionRequirementsKnown is False on a NodePool with requirements whose keys its node class does not know; it is
// absent otherwise. The pool is used anyway, as in Karpenter.
const ConditionRequirementsKnown = "NodelessRequirementsKnown"

// UnknownKey is a requirement of a NodePool that seems to restrict instances but restricts none: pods that require
// the label get any instance with it.
type UnknownKey struct {
	Field, Key string
	Class      string // the kind of node class that does not know it
	Instead    string // the key that was meant, "" if unclear
}

// String says what is wrong and what to write instead.
func (u UnknownKey) String() string {
	text := fmt.Sprintf("%s: %s is not a key of %s instances, so it restricts no instance and is at most a label of "+
		"the node", u.Field, u.Key, u.Class)
	if u.Instead == "" {
		return text + "; remove it"
	}
	return text + "; write " + u.Instead
}

// UnknownKeys returns the requirements of a NodePool under well-known domains that are not keys of its node class:
// those of other classes, such as EKS Auto Mode's for an EC2NodeClass and Karpenter's for a NodeClass, and misspelt
// ones.
func UnknownKeys(pool *karpv1.NodePool) []UnknownKey {
	class := pool.Spec.Template.Spec.NodeClassRef
	if class == nil {
		class = &karpv1.NodeClassReference{}
	}
	known, auto := knownKeys(class)
	var out []UnknownKey
	for i, r := range pool.Spec.Template.Spec.Requirements {
		domain, _, _ := strings.Cut(r.Key, "/")
		switch {
		case known.Has(LabelKey(r.Key)) || LabelKey(r.Key) != r.Key,
			r.Key == karpv1.NodeClassLabelKey(class.GroupKind()):
		case r.Operator == corev1.NodeSelectorOpDoesNotExist: // satisfied
		case r.Key == eksv1.LabelComputeType && r.Operator == corev1.NodeSelectorOpNotIn: // nodes get it if pods select it
		case !below(domain, keyDomains) || below(domain, ownDomains) || below(domain, []string{class.Group}) &&
			class.Kind != "EC2NodeClass" && !auto:
		default:
			out = append(out, UnknownKey{
				Field: fmt.Sprintf("spec.template.spec.requirements[%d]", i), Key: r.Key, Class: class.Kind,
				Instead: meantKey(r.Key, known),
			})
		}
	}
	return out
}

// knownKeys returns the keys of a node class's instances, and whether it is EKS Auto Mode's.
func knownKeys(class *karpv1.NodeClassReference) (known sets.Set[string], auto bool) {
	if class.Group != eksv1.GroupVersion.Group || class.Kind != eksv1.Kind {
		return karpv1.WellKnownLabels, false
	}
	known = sets.New(eksv1.LabelComputeType)
	for key := range karpv1.WellKnownLabels {
		known.Insert(eksv1.Label(key))
	}
	return known, true
}

// below reports whether a domain is one of the others or a subdomain of one.
func below(domain string, others []string) bool {
	return slices.ContainsFunc(others, func(o string) bool { return domain == o || strings.HasSuffix(domain, "."+o) })
}

// meantKey returns the well-known key with the most similar name, at an edit distance of at most 2. Names are
// compared without domains and separators.
func meantKey(key string, keys sets.Set[string]) string {
	name := bareName(key)
	best, least := "", 3
	for _, known := range slices.Sorted(maps.Keys(keys)) {
		if d := spelling.EditDistance(name, bareName(known)); d < least {
			best, least = known, d
		}
	}
	return best
}

func bareName(key string) string {
	name := key[strings.LastIndex(key, "/")+1:]
	return strings.ToLower(strings.NewReplacer("-", "", "_", "", ".", "").Replace(name))
}

// ConditionLaunchSucceeded is False on a NodePool whose last launch failed for a reason other than capacity, and on
// its node class; otherwise it is absent. Readiness does not depend on it: the pool launches again when its back-off
// ends.
const ConditionLaunchSucceeded = "LaunchSucceeded"

const launchesAgain = "; the NodePool launches again at "

// SetLaunchFailure writes on a NodePool why its last launch failed, and until when it launches nothing.
func SetLaunchFailure(np *karpv1.NodePool, reason, message string, until time.Time) {
	message += launchesAgain + until.UTC().Format(time.RFC3339)
	np.StatusConditions(status.WithObservedOnly()).SetFalse(ConditionLaunchSucceeded, reason, message)
}

// LaunchFailure reads what SetLaunchFailure wrote; ok is false if nothing is written.
func LaunchFailure(np *karpv1.NodePool) (reason, message string, until time.Time, ok bool) {
	c := np.StatusConditions(status.WithObservedOnly()).Get(ConditionLaunchSucceeded)
	if c == nil || !c.IsFalse() {
		return "", "", time.Time{}, false
	}
	i := strings.LastIndex(c.Message, launchesAgain)
	if i < 0 {
		return "", "", time.Time{}, false
	}
	until, err := time.Parse(time.RFC3339, c.Message[i+len(launchesAgain):])
	return c.Reason, c.Message[:i], until, err == nil
}
