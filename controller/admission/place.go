package admission

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// Place is where API servers reach the webhook.
type Place struct {
	url                *url.URL
	namespace, service string // of a Service of the cluster, "" if it is reached by the URL
	secret             string // the first part of every path; "" = none
	mutating           string // the name of the configuration that changes pods
}

// Named returns the place with mutating, instead of fargate.MutatingWebhooks, as the name of the configuration that
// changes pods.
func (p Place) Named(mutating string) Place {
	p.mutating = mutating
	return p
}

// WithSecret returns the place with a secret in its paths, so that only the API server is answered where several
// users or guests share a host. Only one process can serve such a place.
func (p Place) WithSecret(secret string) Place {
	p.secret = secret
	return p
}

// path returns the path of a webhook at the place.
func (p Place) path(of string) string {
	if p.secret == "" {
		return of
	}
	return "/" + p.secret + of
}

// ParsePlace parses a URL such as https://192.0.2.1:9443, or https://SERVICE.NAMESPACE.svc for a Service of the
// cluster.
func ParsePlace(text string) (Place, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return Place{}, fmt.Errorf("webhook at %q: %w", text, err)
	case u.Scheme != "https" || u.Hostname() == "":
		return Place{}, fmt.Errorf("webhook at %q: give a URL such as https://192.0.2.1:9443 or "+
			"https://SERVICE.NAMESPACE.svc", text)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
		return Place{}, fmt.Errorf("webhook at %q: only host and port can be given", text)
	}
	p := Place{url: u}
	if name, ok := strings.CutSuffix(u.Hostname(), ".svc"); ok {
		service, namespace, ok := strings.Cut(name, ".")
		if !ok || service == "" || namespace == "" || strings.Contains(namespace, ".") {
			return Place{}, fmt.Errorf("webhook at %q: a Service is https://SERVICE.NAMESPACE.svc", text)
		}
		p.namespace, p.service = namespace, service
	}
	return p, nil
}

func (p Place) hosts() []string { return []string{p.url.Hostname()} }

// client returns the client configuration of a webhook at the place.
func (p Place) client(of string, bundle []byte) admissionregistrationv1.WebhookClientConfig {
	path := p.path(of)
	if p.service == "" {
		at := *p.url
		at.Path = path
		text := at.String()
		return admissionregistrationv1.WebhookClientConfig{URL: &text, CABundle: bundle}
	}
	port := int32(443)
	if n, err := strconv.ParseInt(p.url.Port(), 10, 32); err == nil {
		port = int32(n)
	}
	return admissionregistrationv1.WebhookClientConfig{
		CABundle: bundle,
		Service: &admissionregistrationv1.ServiceReference{
			Namespace: p.namespace, Name: p.service, Path: &path, Port: &port,
		},
	}
}
