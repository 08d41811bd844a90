package kubelet

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	certificates "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/client-go/util/keyutil"
)

// Signer obtains the serving certificate of a node from the cluster when a client first connects to the node: it
// creates a CertificateSigningRequest for the signer kubernetes.io/kubelet-serving. It approves the request itself
// or, on a host that has joined, leaves that to the controller (package remote).
//
// The client must be allowed to create, list and watch certificatesigningrequests and, to approve, to update
// certificatesigningrequests/approval and approve for the signer kubernetes.io/kubelet-serving.
type Signer struct {
	client   kubernetes.Interface
	approves bool

	mu   sync.Mutex
	held map[string]*holder // by node
}

// holder holds the certificate of one node. Its lock is held while a certificate is requested, at most for signLimit.
type holder struct {
	lock    chan struct{} // with room for one
	cert    *tls.Certificate
	at      netip.Addr
	failure error     // of the last request; nil if it succeeded
	retryAt time.Time // until then, the failure is the answer
}

// A request that is not signed within signLimit has failed. Every client is told so for unsignedPause, because each
// request leaves an object behind. After other failures, such as a denial, the pause is failurePause.
const (
	signLimit     = 20 * time.Second
	unsignedPause = 2 * time.Minute
	failurePause  = 5 * time.Second
)

// NewSigner returns a Signer. It approves its own requests if approves is set.
func NewSigner(client kubernetes.Interface, approves bool) *Signer {
	return &Signer{client: client, approves: approves, held: map[string]*holder{}}
}

// Forget drops the certificate of a node that is gone.
func (s *Signer) Forget(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, node)
}

// Certificate implements Certificates.
func (s *Signer) Certificate(ctx context.Context, node string, at netip.Addr) (*tls.Certificate, error) {
	s.mu.Lock()
	h := s.held[node]
	if h == nil {
		h = &holder{lock: make(chan struct{}, 1)}
		s.held[node] = h
	}
	s.mu.Unlock()
	select {
	case h.lock <- struct{}{}:
		defer func() { <-h.lock }()
	case <-ctx.Done():
		return nil, fmt.Errorf("serving certificate of node %s: %w", node, ctx.Err())
	}
	if h.cert != nil && h.at == at && fresh(h.cert.Leaf, time.Now()) {
		return h.cert, nil
	}
	if h.failure != nil && time.Now().Before(h.retryAt) {
		return nil, h.failure
	}
	limited, cancel := context.WithTimeout(ctx, signLimit)
	defer cancel()
	cert, err := s.issue(limited, node, at)
	switch {
	case err == nil:
		h.cert, h.at, h.failure = cert, at, nil
		return cert, nil
	case ctx.Err() != nil: // the server is being closed
		return nil, fmt.Errorf("serving certificate of node %s: %w", node, err)
	}
	wait := failurePause
	if limited.Err() != nil {
		wait = unsignedPause
	}
	h.failure, h.retryAt = fmt.Errorf("serving certificate of node %s: %w", node, err), time.Now().Add(wait)
	return nil, h.failure
}

// fresh reports whether less than four fifths of the certificate's lifetime have passed.
func fresh(c *x509.Certificate, now time.Time) bool {
	return now.Before(c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) * 4 / 5))
}

// usages are those of a serving certificate.
var usages = []certificates.KeyUsage{certificates.UsageDigitalSignature, certificates.UsageServerAuth}

func (s *Signer) issue(ctx context.Context, node string, at netip.Addr) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, err
	}
	subject := &pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}
	request, err := cert.MakeCSR(key, subject, []string{node}, []net.IP{at.AsSlice()})
	if err != nil {
		return nil, err
	}
	client := s.client.CertificatesV1().CertificateSigningRequests()
	made, err := client.Create(ctx, &certificates.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-" + node + "-"},
		Spec: certificates.CertificateSigningRequestSpec{
			Request: request, SignerName: certificates.KubeletServingSignerName, Usages: usages,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("request it: %w", err)
	}
	if s.approves {
		made.Status.Conditions = append(made.Status.Conditions, certificates.CertificateSigningRequestCondition{
			Type: certificates.CertificateApproved, Status: corev1.ConditionTrue, Reason: "NodelessPodNode",
			Message: "the node of a pod on this host",
		})
		if _, err = client.UpdateApproval(ctx, made.Name, made, metav1.UpdateOptions{}); err != nil {
			return nil, fmt.Errorf("approve the request: %w", err)
		}
	}
	chain, err := csr.WaitForCertificate(ctx, s.client, made.Name, made.UID)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("request %s is not signed: %w; is the signer %s of the cluster at work?", made.Name,
			ctx.Err(), certificates.KubeletServingSignerName)
	case err != nil:
		return nil, fmt.Errorf("request %s: %w", made.Name, err)
	}
	pair, err := tls.X509KeyPair(chain, keyPEM)
	return &pair, err
}
