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

// Lacking is a kind that cannot be read: it may not be, or the cluster does not have it.
type Lacking struct {
	Kind, Verb string
	NotServed  bool // the cluster has no such kind
	err        error
}

// Error says what to do, too.
func (l *Lacking) Error() string {
	if l.NotServed {
		return fmt.Sprintf("the cluster has no %s; install what is missing: nodeless crds | kubectl apply --server-side -f -", l.Kind)
	}
	return fmt.Sprintf("not allowed to %s %s in the whole cluster; an administrator allows it: nodeless rbac --view --user NAME | kubectl apply -f - (%v)", l.Verb, l.Kind, l.err)
}

// Unwrap is the API server's own answer.
func (l *Lacking) Unwrap() error { return l.err }

// Essential reports whether there is nothing to say without it, with Options.Partial too.
func (l *Lacking) Essential() bool {
	return slices.ContainsFunc(kinds, func(k kind) bool {
		return k.need == essential && slices.Contains(strings.Split(l.Kind, ", "), k.name())
	})
}

// rank is the place of what is lacking among the kinds.
func rank(err error) int {
	var lacks *Lacking
	if !isLacking(err, &lacks) {
		return len(kinds)
	}
	return slices.IndexFunc(kinds, func(k kind) bool { return k.name() == lacks.Kind })
}

// together is one error for all that may not be read, or, if everything may be, for all that the cluster does not
// have; nil if nothing is lacking.
func together(lacking []*Lacking) *Lacking {
	var out *Lacking
	for _, served := range []bool{true, false} {
		for _, l := range lacking {
			switch {
			case l == nil || l.NotServed == served:
			case out == nil:
				out = &Lacking{Kind: l.Kind, Verb: l.Verb, NotServed: l.NotServed, err: l.err}
			case out.NotServed == l.NotServed:
				out.Kind += ", " + l.Kind
			}
		}
	}
	return out
}

func isLacking(err error, into **Lacking) bool { return errors.As(err, into) }

// trouble says why a kind cannot be read.
func (k kind) trouble(server, verb string, err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case apierrors.IsForbidden(err):
		return &Lacking{Kind: k.name(), Verb: verb, err: err}
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return &Lacking{Kind: k.name(), Verb: verb, NotServed: true, err: err}
	}
	return fmt.Errorf("%s %s: %w", verb, k.name(), troubled(server, err))
}

// troubled says why a cluster does not answer, or not as it should.
func troubled(server string, err error) error {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var network net.Error
	var at *url.Error
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("cluster %s does not accept the credentials of the kubeconfig, which may have expired; log in again or name another kubeconfig or --context (%w)", server, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("cluster %s refuses: %w", server, err)
	case errors.As(err, &unknown), errors.As(err, &host), errors.As(err, &invalid):
		return fmt.Errorf("cluster %s is another one than the kubeconfig knows, which may be stale; fetch it again (%w)",
			server, err)
	case errors.As(err, &network), errors.As(err, &at):
		return fmt.Errorf("cluster %s cannot be reached; does it run, and does the kubeconfig or --context name the right one? (%w)", server, err)
	}
	return fmt.Errorf("cluster %s: %w", server, err)
}
