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

// httpsPort is the default port of an APIService.
const httpsPort = 443

// AddHandover adds an admission plugin that lets a manifest take over one of our APIs unchanged, such as
// metrics-server's in a cluster that already has our APIService of metrics.k8s.io. kubectl and Helm change only what
// the manifest names, that is the Service. Our certificate authority and port, which it does not name, would stay,
// and its insecureSkipTLSVerify would be rejected beside them.
func AddHandover(o *options.AdmissionOptions) {
	o.Plugins.Register(handoverName, func(io.Reader) (admission.Interface, error) {
		return handover{admission.NewHandler(admission.Update)}, nil
	})
	o.RecommendedPluginOrder = append(o.RecommendedPluginOrder, handoverName)
}

type handover struct{ *admission.Handler }

var _ admission.MutationInterface = handover{}

// Admit removes what only we need from an APIService of ours that is handed to another Service.
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
