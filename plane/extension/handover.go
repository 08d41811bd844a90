package extension

import (
	"context"
	"io"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/server/options"
	registration "k8s.io/kube-aggregator/pkg/apis/apiregistration"
)

// handoverName is the name of the admission plugin.
const handoverName = "APIServiceHandover"

// httpsPort is the default of an APIService's port.
const httpsPort = 443

// AddHandover adds an admission plugin by which a manifest takes an API of ours over as it is: metrics-server's is
// applied to a cluster that has our APIService of metrics.k8s.io already. kubectl and Helm change what the manifest
// names, that is the Service; our certificate authority and port, which it does not name, would stay, and its
// insecureSkipTLSVerify would be refused beside them.
func AddHandover(o *options.AdmissionOptions) {
	o.Plugins.Register(handoverName, func(io.Reader) (admission.Interface, error) {
		return handover{admission.NewHandler(admission.Update)}, nil
	})
	o.RecommendedPluginOrder = append(o.RecommendedPluginOrder, handoverName)
}

type handover struct{ *admission.Handler }

var _ admission.MutationInterface = handover{}

// Admit removes from an APIService of ours that is given to another Service whatever only we need.
func (handover) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	is, ok1 := a.GetObject().(*registration.APIService)
	was, ok2 := a.GetOldObject().(*registration.APIService)
	if !ok1 || !ok2 || was.Labels[managedBy] != us || was.Spec.Service == nil || is.Spec.Service == nil ||
		is.Spec.Service.Namespace == was.Spec.Service.Namespace && is.Spec.Service.Name == was.Spec.Service.Name {
		return nil
	}
	if is.Labels[managedBy] == us {
		delete(is.Labels, managedBy)
	}
	if string(is.Spec.CABundle) == string(was.Spec.CABundle) {
		is.Spec.CABundle = nil
	}
	if is.Spec.Service.Port == was.Spec.Service.Port {
		is.Spec.Service.Port = httpsPort
	}
	return nil
}
