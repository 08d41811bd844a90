package host

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/nodeless/nodeless/controller/rbac"
)

// asNodes returns a client that reads each object as the Node of a pod that refers to it (package rbac explains why).
// An object that no pod refers to is requested under the client's own identity, and refused.
func asNodes(cfg *rest.Config, r *references) (kubernetes.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType = runtime.ContentTypeJSON // tokenNode decodes the request
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &nodeTripper{next, r} })
	return kubernetes.NewForConfig(cfg)
}

type nodeTripper struct {
	next http.RoundTripper
	refs *references
}

// RoundTrip implements http.RoundTripper.
func (t *nodeTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	if node := t.node(r); node != "" {
		r = r.Clone(r.Context())
		r.Header.Set(transport.ImpersonateUserHeader, rbac.NodeUser+node)
		r.Header.Set(transport.ImpersonateGroupHeader, rbac.NodeGroup)
	}
	return t.next.RoundTrip(r)
}

// node returns the Node to impersonate for a request, "" if it is unknown.
func (t *nodeTripper) node(r *http.Request) string {
	_, path, _ := strings.Cut(r.URL.Path, "/api/v1/namespaces/")
	parts := strings.Split(path, "/")
	switch {
	case len(parts) == 4 && parts[1] == "serviceaccounts" && parts[3] == "token":
		return t.tokenNode(r)
	case len(parts) == 3:
		return t.refs.nodeFor(reference{parts[1], parts[0], parts[2]})
	case len(parts) == 2: // a list or watch of one object, by its name
		selector, err := fields.ParseSelector(r.URL.Query().Get("fieldSelector"))
		if err != nil {
			return ""
		}
		name, _ := selector.RequiresExactMatch("metadata.name")
		return t.refs.nodeFor(reference{parts[1], parts[0], name})
	}
	return ""
}

// tokenNode returns the Node of the pod to which a token is bound.
func (t *nodeTripper) tokenNode(r *http.Request) string {
	if r.GetBody == nil {
		return ""
	}
	body, err := r.GetBody()
	if err != nil {
		return ""
	}
	defer func() { _ = body.Close() }()
	const most = 64 << 10 // bytes; a token request has some hundred
	var request authenticationv1.TokenRequest
	if err := json.NewDecoder(io.LimitReader(body, most)).Decode(&request); err != nil ||
		request.Spec.BoundObjectRef == nil {
		return ""
	}
	return t.refs.nodeOf(request.Spec.BoundObjectRef.UID)
}

// Kinds of objects that pods refer to, as in URLs.
const (
	secretKind    = "secrets"
	configMapKind = "configmaps"
)

type reference struct{ kind, namespace, name string }

// references knows which pods refer to an object, and the Nodes of these pods.
type references struct {
	mu    sync.Mutex
	nodes map[types.UID]string // by pod
	by    map[reference][]types.UID
}

func newReferences() *references {
	return &references{nodes: map[types.UID]string{}, by: map[reference][]types.UID{}}
}

// add records what a pod refers to. It is idempotent.
func (r *references) add(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes[pod.UID] = pod.Spec.NodeName
	for _, ref := range referencesOf(pod) {
		if !slices.Contains(r.by[ref], pod.UID) {
			r.by[ref] = append(r.by[ref], pod.UID)
		}
	}
}

func (r *references) remove(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.nodes, uid)
	for ref, pods := range r.by {
		if pods = slices.DeleteFunc(pods, func(u types.UID) bool { return u == uid }); len(pods) == 0 {
			delete(r.by, ref)
		} else {
			r.by[ref] = pods
		}
	}
}

// nodeOf returns the Node of a pod, "" if it is unknown.
func (r *references) nodeOf(uid types.UID) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nodes[uid]
}

// nodeFor returns the Node of the newest pod that refers to an object, "" if there is none.
func (r *references) nodeFor(ref reference) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if pods := r.by[ref]; len(pods) > 0 {
		return r.nodes[pods[len(pods)-1]]
	}
	return ""
}

// referencesOf returns the Secrets and ConfigMaps that a pod refers to, possibly with duplicates.
func referencesOf(pod *corev1.Pod) []reference {
	var all []reference
	add := func(kind string) podutil.Visitor {
		return func(name string) bool {
			all = append(all, reference{kind, pod.Namespace, name})
			return true
		}
	}
	podutil.VisitPodSecretNames(pod, add(secretKind))
	podutil.VisitPodConfigmapNames(pod, add(configMapKind))
	return all
}
