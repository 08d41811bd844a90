package translate

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/catalog"
)

// CNI returns how the VPC CNI that a DaemonSet runs assigns addresses of subnets to pods; nil if the DaemonSet does
// not run the VPC CNI, if it need not run on all nodes, as when a nodeSelector makes way for another CNI, and under
// IPv6. Nothing is known about nodes' addresses then.
func CNI(ds *appsv1.DaemonSet) *catalog.CNI {
	if ds.Namespace != metav1.NamespaceSystem || ds.Name != catalog.CNIContainer || ds.DeletionTimestamp != nil ||
		len(ds.Spec.Template.Spec.NodeSelector) > 0 {
		return nil
	}
	env := map[string]string{}
	for i := range ds.Spec.Template.Spec.Containers {
		for _, v := range cniVariables(&ds.Spec.Template.Spec.Containers[i]) {
			env[v.Name] = v.Value
		}
	}
	c, _ := catalog.ReadCNI(env) // the nodes' own CNI reports what is wrong
	if c.IPv6 {
		return nil
	}
	return &c
}

// cniVariables returns the variables with which a container configures the VPC CNI, without those that refer to other
// objects; none for any other container.
func cniVariables(c *corev1.Container) (out []corev1.EnvVar) {
	if c.Name != catalog.CNIContainer {
		return nil
	}
	for _, v := range c.Env {
		if catalog.CNIVariable(v.Name) && v.ValueFrom == nil {
			out = append(out, v)
		}
	}
	return out
}
