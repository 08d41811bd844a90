package capture

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
)

// MissingKind is the error for a kind that cannot be read: access is denied, or the cluster does not have it.
type MissingKind struct {
	Kind, Verb string
	NotServed  bool // the cluster has no such kind
	err        error
}

// Error describes the problem and its remedy.
func (l *MissingKind) Error() string {
	if l.NotServed {
		return fmt.Sprintf("the cluster has no %s; install what is missing: nodeless crds | kubectl apply "+
			"--server-side -f -", l.Kind)
	}
	return fmt.Sprintf("not allowed to %s %s in the whole cluster; an administrator allows it: nodeless rbac --view "+
		"--user NAME | kubectl apply -f - (%v)", l.Verb, l.Kind, l.err)
}

// Unwrap returns the API server's own error.
func (l *MissingKind) Unwrap() error { return l.err }

// Essential reports whether no question can be answered without the kind, even with Options.Partial.
func (l *MissingKind) Essential() bool {
	return slices.ContainsFunc(kinds, func(k kind) bool {
		return k.need == essential && slices.Contains(strings.Split(l.Kind, ", "), k.name())
	})
}

// rank orders errors by the position of their kind in kinds.
func rank(err error) int {
	var lacks *MissingKind
	if !asMissingKind(err, &lacks) {
		return len(kinds) + len(spreadKinds)
	}
	return slices.IndexFunc(slices.Concat(kinds, spreadKinds), func(k kind) bool { return k.name() == lacks.Kind })
}

// combine merges errors into one that names all kinds to which access is denied or, if there are none, all kinds that
// the cluster does not serve. It returns nil if there are no errors.
func combine(lacking []*MissingKind) *MissingKind {
	var out *MissingKind
	for _, served := range []bool{true, false} {
		for _, l := range lacking {
			switch {
			case l == nil || l.NotServed == served:
			case out == nil:
				out = &MissingKind{Kind: l.Kind, Verb: l.Verb, NotServed: l.NotServed, err: l.err}
			case out.NotServed == l.NotServed:
				out.Kind += ", " + l.Kind
			}
		}
	}
	return out
}

func asMissingKind(err error, into **MissingKind) bool { return errors.As(err, into) }

// explain says why a kind cannot be read.
func (k kind) explain(server, verb string, err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case apierrors.IsForbidden(err):
		return &MissingKind{Kind: k.name(), Verb: verb, err: err}
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return &MissingKind{Kind: k.name(), Verb: verb, NotServed: true, err: err}
	}
	return fmt.Errorf("%s %s: %w", verb, k.name(), ExplainUnreachable(server, err))
}

// ExplainUnreachable explains why a cluster does not answer, or answers with an error.
func ExplainUnreachable(server string, err error) error {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var network net.Error
	var at *url.Error
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("cluster %s does not accept the credentials of the kubeconfig, which may have expired; log in "+
			"again or name another kubeconfig or --context (%w)", server, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("cluster %s refuses: %w", server, err)
	case errors.As(err, &unknown), errors.As(err, &host), errors.As(err, &invalid):
		return fmt.Errorf("cluster %s is another one than the kubeconfig knows, which may be stale; fetch it again (%w)",
			server, err)
	case errors.As(err, &network), errors.As(err, &at):
		return fmt.Errorf("cluster %s cannot be reached; does it run, and does the kubeconfig or --context name the "+
			"right one? (%w)", server, err)
	}
	return fmt.Errorf("cluster %s: %w", server, err)
}
