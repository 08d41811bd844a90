package admission

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/httpguard"
	"github.com/nodeless/nodeless/internal/kit/signal"
)

// Loopback is a webhook that changes new pods, for an API server on the same host. An API server that cannot reach it
// creates the pods unchanged.
type Loopback struct {
	Configuration string // name of the MutatingWebhookConfiguration
	Client        client.Client
	Log           *slog.Logger
	// Selectors returns, by webhook name, a selector of the namespaces whose pods are changed. If it returns none,
	// nothing is registered.
	Selectors func(context.Context) (map[string]*metav1.LabelSelector, error)
	// Conditions are CEL expressions by webhook name. The API server calls a webhook only for pods that satisfy its
	// condition.
	Conditions map[string]string
	// Changed is signalled when the result of Selectors changes; nil if it never does.
	Changed signal.Signal
	// Mutate changes a new pod of a namespace; the pod's own namespace may still be unset. It may be called twice for a
	// pod.
	Mutate func(ctx context.Context, namespace string, pod *corev1.Pod) error
}

// Run serves the webhook and keeps it registered until ctx is done.
func (l *Loopback) Run(ctx context.Context) error {
	server, listener, at, err := l.listen(ctx)
	if err != nil {
		return fmt.Errorf("webhook configuration %s: %w", l.Configuration, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	defer func() { _ = server.Close() }()
	defer l.unregister(ctx)
	registrar := Registrar{Client: l.Client, Clock: clock.Real{}}
	for {
		wait, err := l.register(ctx, &registrar, at)
		if err != nil && ctx.Err() == nil {
			l.Log.Warn("a webhook is not registered; trying again", "configuration", l.Configuration, "error", err)
			wait = time.After(pause)
		}
		select {
		case <-l.Changed:
		case <-wait:
		case err := <-ended:
			return fmt.Errorf("webhook configuration %s: %w", l.Configuration, err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// listen opens the webhook's port. Only this process and the API server know its path.
func (l *Loopback) listen(ctx context.Context) (
	*http.Server, net.Listener, admissionv1.WebhookClientConfig, error,
) {
	none := admissionv1.WebhookClientConfig{}
	cert, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, nil, none, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, nil, none, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, none, err
	}
	path := "/" + httpguard.NewToken()
	url := "https://" + listener.Addr().String() + path
	mux := http.NewServeMux()
	mux.Handle("POST "+path, &admission.Webhook{Handler: admission.HandlerFunc(l.review)})
	server := httpguard.NewServer(bodyWithin, mux)
	server.ErrorLog = slog.NewLogLogger(l.Log.Handler(), slog.LevelDebug)
	server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	return server, listener, admissionv1.WebhookClientConfig{URL: &url, CABundle: cert}, nil
}

// register registers the webhooks. If it changed anything, wait fires when the change is to be confirmed.
func (l *Loopback) register(
	ctx context.Context, registrar *Registrar, at admissionv1.WebhookClientConfig,
) (wait <-chan time.Time, err error) {
	selectors, err := l.Selectors(ctx)
	if err != nil {
		return nil, err
	}
	want, have := l.configuration(), l.configuration()
	if len(selectors) == 0 {
		return nil, client.IgnoreNotFound(l.Client.Delete(ctx, want))
	}
	for _, name := range slices.Sorted(maps.Keys(selectors)) {
		pods := newPods(name, selectors[name], at)
		if c := l.Conditions[name]; c != "" {
			pods.MatchConditions = []admissionv1.MatchCondition{{Name: "pod", Expression: c}}
		}
		want.Webhooks = append(want.Webhooks, pods)
	}
	confirmed, err := registrar.Put(ctx, want, have, func() bool {
		same := slices.EqualFunc(want.Webhooks, have.Webhooks, func(w, h admissionv1.MutatingWebhook) bool {
			return w.Name == h.Name && equality.Semantic.DeepEqual(w.ClientConfig, h.ClientConfig) &&
				equality.Semantic.DeepEqual(w.NamespaceSelector, h.NamespaceSelector)
		})
		have.Webhooks = want.Webhooks
		return same
	})
	if err != nil || confirmed {
		return nil, err
	}
	return time.After(ConfirmAfter), nil
}

func (l *Loopback) configuration() *admissionv1.MutatingWebhookConfiguration {
	return &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: l.Configuration}}
}

func newPods(
	name string, in *metav1.LabelSelector, at admissionv1.WebhookClientConfig,
) admissionv1.MutatingWebhook {
	ignore, none := admissionv1.Ignore, admissionv1.SideEffectClassNone
	return admissionv1.MutatingWebhook{
		// On the same host, only a busy process is late, and a pod should wait for it. One that has ended refuses the
		// connection at once.
		Name: name, ClientConfig: at, FailurePolicy: &ignore, SideEffects: &none, TimeoutSeconds: new(int32(30)),
		AdmissionReviewVersions: []string{"v1"}, NamespaceSelector: in,
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
		}},
	}
}

// unregister removes the webhooks, which no longer answer once Run returns.
func (l *Loopback) unregister(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if err := l.Client.Delete(ctx, l.configuration()); client.IgnoreNotFound(err) != nil {
		l.Log.Warn("a webhook stays registered", "configuration", l.Configuration, "error", err)
	}
}

// review answers a request with the pod as Mutate changes it.
func (l *Loopback) review(ctx context.Context, in admission.Request) admission.Response {
	var pod corev1.Pod
	if err := json.Unmarshal(in.Object.Raw, &pod); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if err := l.Mutate(ctx, in.Namespace, &pod); err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	after, err := json.Marshal(&pod)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(in.Object.Raw, after)
}
