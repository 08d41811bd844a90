package admission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/microvm/fargate"
)

// Keys of the Secret for the successor of the pair in use, which has the keys of every TLS Secret.
const (
	nextCert = "next.crt"
	nextKey  = "next.key"
)

// settle reads the certificates, brings them up to date and stores them. Of several replicas, one succeeds in writing
// and the others read its result.
func (s *Server) settle(ctx context.Context) (certificates, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.o.Namespace, Name: fargate.WebhookSecret}}
	err := s.o.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return certificates{}, fmt.Errorf("read Secret %s/%s of the webhook: %w", s.o.Namespace, fargate.WebhookSecret, err)
	}
	certs, changed, err := stored(secret).step(s.o.Clock.Now(), s.o.At.hosts())
	if err != nil || !changed {
		return certs, err
	}
	secret.Type = corev1.SecretTypeTLS
	secret.Data = map[string][]byte{corev1.TLSCertKey: certs.current.cert, corev1.TLSPrivateKeyKey: certs.current.key}
	if certs.next != nil {
		secret.Data[nextCert], secret.Data[nextKey] = certs.next.cert, certs.next.key
	}
	write := func() error { return s.o.Client.Update(ctx, secret) } // with its version: of two replicas, one fails
	if missing {
		write = func() error { return s.o.Client.Create(ctx, secret) }
	}
	if err := write(); err != nil {
		return certificates{}, fmt.Errorf("store Secret %s/%s of the webhook: %w", s.o.Namespace, fargate.WebhookSecret, err)
	}
	return certs, nil
}

// stored returns the certificates in a Secret; unreadable ones count as missing.
func stored(secret *corev1.Secret) certificates {
	var c certificates
	if p, err := readPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]); err == nil {
		c.current = p
	}
	if p, err := readPair(secret.Data[nextCert], secret.Data[nextKey]); err == nil {
		c.next = p
	}
	return c
}
