package host

import (
	"context"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/kubelet/configmap"
	"k8s.io/kubernetes/pkg/kubelet/secret"
	"k8s.io/kubernetes/pkg/kubelet/token"
	"k8s.io/utils/ptr"
)

// idle is a fifth of the time after which an unused object is no longer watched: the kubelet's libraries multiply it
// by five.
const idle = time.Minute

// objects reads the objects that pods refer to. The kubelet's own managers watch the ConfigMaps and Secrets of
// registered pods and no others; tokens are renewed after four fifths of their lifetime.
type objects struct {
	refs       *references
	configMaps configmap.Manager
	secrets    secret.Manager
	tokens     *token.Manager
}

// newObjects reads objects as the Nodes of pods if asNode is given, else as this process.
func newObjects(kube kubernetes.Interface, asNode *rest.Config) (o objects, err error) {
	o.refs = newReferences()
	if asNode != nil {
		if kube, err = asNodes(asNode, o.refs); err != nil {
			return o, err
		}
	}
	o.configMaps = configmap.NewWatchingConfigMapManager(kube, idle)
	o.secrets = secret.NewWatchingSecretManager(kube, idle)
	o.tokens = token.NewManager(kube)
	return o, nil
}

// register starts watching the objects that a pod refers to. The pod's nodeName must be set.
func (o objects) register(pod *corev1.Pod) {
	o.refs.add(pod)
	o.configMaps.RegisterPod(pod)
	o.secrets.RegisterPod(pod)
}

// forget undoes register.
func (o objects) forget(namespace, name string, uid types.UID) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid}} // these identify a pod
	o.configMaps.UnregisterPod(pod)
	o.secrets.UnregisterPod(pod)
	o.tokens.DeleteServiceAccountToken(uid)
	o.refs.remove(uid)
}

// ConfigMap implements podspec.Objects.
func (o objects) ConfigMap(namespace, name string) (*corev1.ConfigMap, error) {
	return o.configMaps.GetConfigMap(namespace, name)
}

// Secret implements podspec.Objects.
func (o objects) Secret(namespace, name string) (*corev1.Secret, error) {
	return o.secrets.GetSecret(namespace, name)
}

// Token implements podspec.Objects.
func (o objects) Token(_ context.Context, pod *corev1.Pod, audience string, lifetime time.Duration) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr.To(int64(lifetime / time.Second)), BoundObjectRef: &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
		},
	}}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	got, err := o.tokens.GetServiceAccountToken(pod.Namespace, pod.Spec.ServiceAccountName, request)
	if err != nil {
		return "", err
	}
	return got.Status.Token, nil
}
