package metricsapi

import (
	"context"
	"fmt"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/filters"
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

// The aggregator finds this process through a Service without endpoints, since endpoints may not be loopback addresses.
const (
	namespace   = metav1.NamespaceSystem
	service     = "nodeless-metrics"
	apiService  = "v1beta1.metrics.k8s.io"
	managedBy   = "app.kubernetes.io/managed-by"
	us          = "nodeless"
	stopTimeout = 5 * time.Second
)

// Run serves and registers the API until the context ends. It returns at once if the cluster has another metrics API,
// which it leaves alone.
func Run(ctx context.Context, kubeconfig string, s Source) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("metrics API: %w", err)
	}
	a, err := aggregator.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("metrics API: %w", err)
	}
	switch there, err := a.ApiregistrationV1().APIServices().Get(ctx, apiService, metav1.GetOptions{}); {
	case err == nil && there.Labels[managedBy] != us:
		return nil
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("metrics API: look for another: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("metrics API: %w", err)
	}
	stopped, port, ca, err := listen(ctx, kubeconfig, s)
	if err != nil {
		return fmt.Errorf("metrics API: %w", err)
	}
	if err := register(ctx, client, a, port, ca); err != nil {
		return fmt.Errorf("metrics API: register it: %w", err)
	}
	<-ctx.Done()
	<-stopped
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return Unregister(last, config)
}

// Unregister removes our registration, such as that of a killed process: without a server, it would keep every
// namespace from being deleted.
func Unregister(ctx context.Context, config *rest.Config) error {
	a, err := aggregator.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("metrics API: %w", err)
	}
	there, err := a.ApiregistrationV1().APIServices().Get(ctx, apiService, metav1.GetOptions{})
	if err == nil && there.Labels[managedBy] == us {
		err = a.ApiregistrationV1().APIServices().Delete(ctx, apiService, metav1.DeleteOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("metrics API: remove its registration: %w", err)
	}
	return nil
}

// listen serves with delegated authentication (including the aggregator's request headers) and authorization.
func listen(ctx context.Context, kubeconfig string, s Source) (stopped <-chan struct{}, port int32, ca []byte,
	err error,
) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, 0, nil, err
	}
	serving := options.NewSecureServingOptions()
	serving.Listener = l
	serving.ServerCert = options.GeneratableKeyCert{}
	if err := serving.MaybeDefaultWithSelfSignedCerts(service+"."+namespace+".svc", nil, nil); err != nil {
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
	handler := filters.WithAuthorization(newHandler(s), may.Authorizer, codecs)
	handler = filters.WithAuthentication(handler, who.Authenticator, filters.Unauthorized(codecs), nil,
		who.RequestHeaderConfig)
	handler = filters.WithRequestInfo(handler, &request.RequestInfoFactory{APIPrefixes: sets.NewString("apis")})
	stopped, _, err = info.Serve(filters.WithAuditInit(handler), stopTimeout, ctx.Done())
	ca, _ = serving.ServerCert.GeneratedCert.CurrentCertKeyContent()
	return stopped, int32(l.Addr().(*net.TCPAddr).Port), ca, err
}

func register(ctx context.Context, client kubernetes.Interface, a aggregator.Interface, port int32, ca []byte) error {
	labels := map[string]string{managedBy: us}
	_, err := client.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: service, Labels: labels},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	want := &registration.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: apiService, Labels: labels},
		Spec: registration.APIServiceSpec{
			Service: &registration.ServiceReference{Namespace: namespace, Name: service, Port: &port},
			Group:   "metrics.k8s.io", Version: "v1beta1", CABundle: ca, GroupPriorityMinimum: 100, VersionPriority: 100,
		},
	}
	api := a.ApiregistrationV1().APIServices()
	_, err = api.Create(ctx, want, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	there, err := api.Get(ctx, apiService, metav1.GetOptions{}) // a killed process has left it
	if err != nil {
		return err
	}
	there.Spec = want.Spec
	_, err = api.Update(ctx, there, metav1.UpdateOptions{})
	return err
}
