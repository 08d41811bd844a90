package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	facts "github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/engine/model"
)

// windowsNetwork says whether pods on Windows get addresses: EKS's VPC resource controller assigns them, and only if
// a ConfigMap of the VPC CNI says so.
type windowsNetwork struct {
	settings table[*corev1.ConfigMap] // that ConfigMap, if it exists
	watched  bool                     // otherwise it is unknown whether it exists
}

// setWindowsKnown records that the ConfigMap is watched.
func (s *State) setWindowsKnown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subnets.windows.watched = true
}

// onWindows are the labels of nodes whose pods get no addresses from aws-node.
var onWindows = model.NewRequirements(model.OneOf(model.LabelOS, string(corev1.Windows)))

// lacks returns why pods would get no addresses on nodes of these types; "" if they would, if the types run Linux, or
// if it is unknown. A pool that lacks them launches nothing: EKS would leave its pods ContainerCreating.
func (w *windowsNetwork) lacks(types []model.InstanceType) string {
	if !slices.ContainsFunc(types, func(t model.InstanceType) bool { return t.Capacity[model.PrivateIPv4] > 0 }) {
		return ""
	}
	c := w.settings.live[windowsSettings]
	if c == nil && !w.watched || c != nil && c.Data[facts.WindowsIPAMKey] == "true" {
		return ""
	}
	return "pods on Windows get no addresses, since ConfigMap " + windowsSettings.String() + " does not say " +
		facts.WindowsIPAMKey + `: "true": kubectl patch configmap ` + windowsSettings.Name + " -n " +
		windowsSettings.Namespace + ` --type merge -p '{"data":{"` + facts.WindowsIPAMKey + `":"true"}}', then ` +
		"create the pods anew"
}

var windowsSettings = types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: facts.WindowsIPAMMap}
