// Package extension serves APIs alongside those of the API server: an API's handler runs in this process, and the
// aggregator forwards requests to it.
package extension

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	registration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
)

const (
	namespace         = metav1.NamespaceSystem
	managedBy         = "app.kubernetes.io/managed-by"
	us                = "nodeless"
	stopTimeout       = 5 * time.Second // of requests in progress
	unregisterTimeout = 30 * time.Second
)

// API is one version of an API group.
type API struct {
	schema.GroupVersion
	// Service is the name in kube-system under which the aggregator finds this process. It is a Service without
	// endpoints, since endpoints may not be loopback addresses.
	Service   string
	Resources []metav1.APIResource
	// Handler receives the authorized requests below Path, except those for discovery.
	Handler http.Handler
}

// Path returns the API's path, such as /apis/metrics.k8s.io/v1beta1.
func (a API) Path() string { return "/apis/" + a.String() }

// name returns the name of the API's APIService, such as v1beta1.metrics.k8s.io.
func (a API) name() string { return a.Version + "." + a.Group }

// Run registers and serves the API until the context ends. It returns at once if another program has registered it.
func (a API) Run(ctx context.Context, kubeconfig string) error {
	if err := a.run(ctx, kubeconfig); err != nil {
		return fmt.Errorf("API %s: %w", a, err)
	}
	return nil
}

func (a API) run(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	registered, err := aggregator.NewForConfig(config)
	if err != nil {
		return err
	}
	switch there, err := registered.ApiregistrationV1().APIServices().Get(ctx, a.name(), metav1.GetOptions{}); {
	case err == nil && there.Labels[managedBy] != us:
		return nil
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("read its registration: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	stopped, port, ca, err := a.listen(ctx, kubeconfig)
	if err != nil {
		return err
	}
	if err := a.register(ctx, client, registered, port, ca); err != nil {
		return fmt.Errorf("register it: %w", err)
	}
	<-ctx.Done()
	<-stopped
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), unregisterTimeout)
	defer cancel()
	return a.Unregister(last, config)
}

// Unregister removes our registration, such as that of a killed process: without a server, it would block the
// deletion of every namespace.
func (a API) Unregister(ctx context.Context, config *rest.Config) error {
	registered, err := aggregator.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("API %s: %w", a, err)
	}
	there, err := registered.ApiregistrationV1().APIServices().Get(ctx, a.name(), metav1.GetOptions{})
	if err == nil && there.Labels[managedBy] == us {
		err = registered.ApiregistrationV1().APIServices().Delete(ctx, a.name(), metav1.DeleteOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("API %s: remove its registration: %w", a, err)
	}
	return nil
}

// withDiscovery serves the API's discovery documents in addition to its handler.
func (a API) withDiscovery() http.Handler {
	version := metav1.GroupVersionForDiscovery{GroupVersion: a.String(), Version: a.Version}
	group := metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: a.Group,
		Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
	}
	mux := http.NewServeMux()
	mux.Handle(a.Path()+"/", a.Handler)
	for path, document := range map[string]any{
		"/apis": metav1.APIGroupList{
			TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{group},
		},
		"/apis/" + a.Group: group,
		a.Path(): metav1.APIResourceList{
			TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: version.GroupVersion, APIResources: a.Resources,
		},
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			responsewriters.WriteRawJSON(http.StatusOK, document, w)
		})
	}
	return mux
}

// listen serves with delegated authentication (including the aggregator's request headers) and authorization.
func (a API) listen(ctx context.Context, kubeconfig string) (stopped <-chan struct{}, port int32, ca []byte,
	err error,
) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, 0, nil, err
	}
	serving := options.NewSecureServingOptions()
	serving.Listener = l
	serving.ServerCert = options.GeneratableKeyCert{}
	if err := serving.MaybeDefaultWithSelfSignedCerts(a.Service+"."+namespace+".svc", nil, nil); err != nil {
		return nil, 0, nil, err
	}
	var info *server.SecureServingInfo
	if err := serving.ApplyTo(&info); err != nil {
		return nil, 0, nil, err
	}
	authentication := options.NewDelegatingAuthenticationOptions()
	authorization := options.NewDelegatingAuthorizationOptions()
	authentication.RemoteKubeConfigFile, authorization.RemoteKubeConfigFile = kubeconfig, kubeconfig
	var who server.AuthenticationInfo
	var may server.AuthorizationInfo
	if err := authentication.ApplyTo(&who, info, nil); err != nil {
		return nil, 0, nil, err
	}
	if err := authorization.ApplyTo(&may); err != nil {
		return nil, 0, nil, err
	}
	codecs := serializer.NewCodecFactory(scheme.Scheme)
	handler := filters.WithAuthorization(a.withDiscovery(), may.Authorizer, codecs)
	handler = filters.WithAuthentication(handler, who.Authenticator, filters.Unauthorized(codecs), nil,
		who.RequestHeaderConfig)
	handler = filters.WithRequestInfo(handler, &request.RequestInfoFactory{APIPrefixes: sets.NewString("apis")})
	stopped, _, err = info.Serve(filters.WithAuditInit(handler), stopTimeout, ctx.Done())
	ca, _ = serving.ServerCert.GeneratedCert.CurrentCertKeyContent()
	return stopped, int32(l.Addr().(*net.TCPAddr).Port), ca, err
}

func (a API) register(ctx context.Context, client kubernetes.Interface, registered aggregator.Interface, port int32,
	ca []byte,
) error {
	labels := map[string]string{managedBy: us}
	_, err := client.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: a.Service, Labels: labels},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	want := &registration.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: a.name(), Labels: labels},
		Spec: registration.APIServiceSpec{
			Service: &registration.ServiceReference{Namespace: namespace, Name: a.Service, Port: &port},
			Group:   a.Group, Version: a.Version, CABundle: ca, GroupPriorityMinimum: 100, VersionPriority: 100,
		},
	}
	api := registered.ApiregistrationV1().APIServices()
	_, err = api.Create(ctx, want, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	there, err := api.Get(ctx, a.name(), metav1.GetOptions{}) // left by a killed process
	if err != nil {
		return err
	}
	there.Spec = want.Spec
	_, err = api.Update(ctx, there, metav1.UpdateOptions{})
	return err
}
