package kubelet

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
)

// How long answers of the API server are cached: the kubelet's defaults (KubeletConfiguration v1beta1, webhook).
const (
	tokenTTL = 2 * time.Minute
	allowTTL = 5 * time.Minute
	denyTTL  = 30 * time.Second
)

// guard authenticates and authorizes requests by asking the API server.
type guard struct {
	authenticator authenticator.Request
	authorizer    authorizer.Authorizer
	ca            dynamiccertificates.CAContentProvider
}

func newGuard(client kubernetes.Interface, clientCA []byte) (*guard, error) {
	ca, err := dynamiccertificates.NewStaticCAContent("client-ca", clientCA)
	if err != nil {
		return nil, fmt.Errorf("certificate authority of clients: %w; give the cluster's, as in "+
			"kube-system/extension-apiserver-authentication", err)
	}
	authn, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		Anonymous:                          &apiserver.AnonymousAuthConfig{Enabled: false},
		CacheTTL:                           tokenTTL,
		ClientCertificateCAContentProvider: ca,
		TokenAccessReviewClient:            client.AuthenticationV1(),
		WebhookRetryBackoff:                options.DefaultAuthWebhookRetryBackoff(),
	}.New()
	if err != nil {
		return nil, fmt.Errorf("authentication: %w", err)
	}
	authz, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(),
		AllowCacheTTL:             allowTTL,
		DenyCacheTTL:              denyTTL,
		WebhookRetryBackoff:       options.DefaultAuthWebhookRetryBackoff(),
	}.New()
	if err != nil {
		return nil, fmt.Errorf("authorisation: %w", err)
	}
	return &guard{authenticator: authn, authorizer: authz, ca: ca}, nil
}

// admit answers 401 or 403 and returns false unless the caller may do this to the node.
func (g *guard) admit(w http.ResponseWriter, r *http.Request, node string) bool {
	who, ok, err := g.authenticator.AuthenticateRequest(r)
	if err != nil || !ok {
		// The cause is left out: it would help an attacker.
		http.Error(w, "Unauthorized: send a client certificate of the cluster, or a token", http.StatusUnauthorized)
		return false
	}
	var refusal string
	for _, a := range attributes(who.User, r, node) {
		decision, reason, err := g.authorizer.Authorize(r.Context(), a)
		if err != nil {
			http.Error(w, fmt.Sprintf("check the permissions of %s with the API server: %v", who.User.GetName(), err),
				http.StatusInternalServerError)
			return false
		}
		if decision == authorizer.DecisionAllow {
			return true
		}
		refusal = fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource=%s, node=%s) %s",
			a.GetUser().GetName(), a.GetVerb(), a.GetSubresource(), node, reason)
	}
	http.Error(w, refusal, http.StatusForbidden)
	return false
}

// attributes returns the rights, any of which is enough for the request: the table of the Kubernetes documentation
// (Kubelet authentication/authorization).
func attributes(who user.Info, r *http.Request, node string) []authorizer.Attributes {
	verb := map[string]string{http.MethodGet: "get", http.MethodPost: "create", http.MethodHead: "get"}[r.Method]
	var subresources []string
	switch first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); first {
	case "stats", "metrics":
		subresources = []string{first}
	case "pods", "healthz":
		subresources = []string{first, "proxy"}
	case "runningpods":
		subresources = []string{"pods", "proxy"}
	default:
		subresources = []string{"proxy"}
	}
	var all []authorizer.Attributes
	for _, s := range subresources {
		all = append(all, authorizer.AttributesRecord{
			User: who, Verb: verb, APIVersion: "v1", Resource: "nodes",
			Subresource: s, Name: node, ResourceRequest: true, Path: r.URL.Path,
		})
	}
	return all
}
