package host

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/nodeless/nodeless/controller/rbac"
)

// asNodes is a client that asks for each object as the Node of a pod that refers to it (package rbac says why). What no pod refers to it asks for as itself,
// and is refused.
func asNodes(cfg *rest.Config, r *references) (kubernetes.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType = runtime.ContentTypeJSON // what is sent is read here
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

// node is as whom a request is to be made; "" if that is not known.
func (t *nodeTripper) node(r *http.Request) string {
	_, path, _ := strings.Cut(r.URL.Path, "/api/v1/namespaces/")
	parts := strings.Split(path, "/")
	switch {
	case len(parts) == 4 && parts[1] == "serviceaccounts" && parts[3] == "token":
		return t.tokenNode(r)
	case len(parts) == 3:
		return t.refs.nodeFor(reference{parts[1], parts[0], parts[2]})
	case len(parts) == 2: // a list or a watch of one object, by its name
		selector, err := fields.ParseSelector(r.URL.Query().Get("fieldSelector"))
		if err != nil {
			return ""
		}
		name, _ := selector.RequiresExactMatch("metadata.name")
		return t.refs.nodeFor(reference{parts[1], parts[0], name})
	}
	return ""
}

// tokenNode is the Node of the pod with which a token ends.
func (t *nodeTripper) tokenNode(r *http.Request) string {
	if r.GetBody == nil {
		return ""
	}
	body, err := r.GetBody()
	if err != nil {
		return ""
	}
	defer func() { _ = body.Close() }()
	const most = 64 << 10 // bytes; a request for a token takes some hundred
	var request authenticationv1.TokenRequest
	if err := json.NewDecoder(io.LimitReader(body, most)).Decode(&request); err != nil || request.Spec.BoundObjectRef == nil {
		return ""
	}
	return t.refs.nodeOf(request.Spec.BoundObjectRef.UID)
}
