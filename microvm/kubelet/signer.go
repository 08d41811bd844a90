package kubelet

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	certificates "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
)

// Signer gets serving certificates from the cluster, when somebody first connects to a node: it creates a
// CertificateSigningRequest for the signer kubernetes.io/kubelet-serving. It approves the request itself if it created
// the node; otherwise the controller approves it (package remote).
//
// The client needs to create and watch certificatesigningrequests and, to approve, to update
// certificatesigningrequests/approval and approve for the signer kubernetes.io/kubelet-serving.
type Signer struct {
	client   kubernetes.Interface
	approves bool

	mu   sync.Mutex
	held map[string]*holder // by node
}

// holder has the certificate of one node. Its lock is held while a certificate is requested.
type holder struct {
	mu   sync.Mutex
	cert *tls.Certificate
	at   netip.Addr
}

// NewSigner returns a Signer, which approves its own requests or leaves that to others.
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
		h = &holder{}
		s.held[node] = h
	}
	s.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cert != nil && h.at == at && fresh(h.cert.Leaf, time.Now()) {
		return h.cert, nil
	}
	cert, err := s.issue(ctx, node, at)
	if err != nil {
		return nil, fmt.Errorf("serving certificate of node %s: %w", node, err)
	}
	h.cert, h.at = cert, at
	return cert, nil
}

// fresh reports whether less than four fifths of the certificate's life is over.
func fresh(c *x509.Certificate, now time.Time) bool {
	return now.Before(c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) * 4 / 5))
}

func (s *Signer) issue(ctx context.Context, node string, at netip.Addr) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:     pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
		DNSNames:    []string{node},
		IPAddresses: []net.IP{at.AsSlice()},
	}, key)
	if err != nil {
		return nil, err
	}
	csrs := s.client.CertificatesV1().CertificateSigningRequests()
	csr, err := csrs.Create(ctx, &certificates.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-" + node + "-"},
		Spec: certificates.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}),
			SignerName: certificates.KubeletServingSignerName,
			Usages:     []certificates.KeyUsage{certificates.UsageDigitalSignature, certificates.UsageServerAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("request it: %w", err)
	}
	if s.approves {
		csr.Status.Conditions = append(csr.Status.Conditions, certificates.CertificateSigningRequestCondition{
			Type: certificates.CertificateApproved, Status: corev1.ConditionTrue, Reason: "NodelessPodNode",
			Message: "the node of a pod on this host",
		})
		if csr, err = csrs.UpdateApproval(ctx, csr.Name, csr, metav1.UpdateOptions{}); err != nil {
			return nil, fmt.Errorf("approve the request: %w", err)
		}
	}
	chain, err := s.await(ctx, csr.Name)
	if err != nil {
		return nil, err
	}
	return pair(chain, key)
}

// await returns the certificate that the signer puts into the request's status.
func (s *Signer) await(ctx context.Context, name string) ([]byte, error) {
	w, err := s.client.CertificatesV1().CertificateSigningRequests().Watch(ctx,
		metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil {
		return nil, fmt.Errorf("watch request %s: %w", name, err)
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("request %s is not signed: %w; is the signer %s of the cluster at work?", name, ctx.Err(),
				certificates.KubeletServingSignerName)
		case e, ok := <-w.ResultChan():
			if !ok {
				return nil, fmt.Errorf("the watch of request %s ended", name)
			}
			csr, ok := e.Object.(*certificates.CertificateSigningRequest)
			if !ok {
				continue
			}
			for _, c := range csr.Status.Conditions {
				if c.Type == certificates.CertificateDenied || c.Type == certificates.CertificateFailed {
					return nil, fmt.Errorf("request %s: %s: %s", name, c.Reason, c.Message)
				}
			}
			if len(csr.Status.Certificate) > 0 {
				return csr.Status.Certificate, nil
			}
		}
	}
}

func pair(chain []byte, key *ecdsa.PrivateKey) (*tls.Certificate, error) {
	cert := &tls.Certificate{PrivateKey: key}
	for block, rest := pem.Decode(chain); block != nil; block, rest = pem.Decode(rest) {
		cert.Certificate = append(cert.Certificate, block.Bytes)
	}
	if len(cert.Certificate) == 0 {
		return nil, errors.New("the signer's answer holds no certificate")
	}
	var err error
	cert.Leaf, err = x509.ParseCertificate(cert.Certificate[0])
	return cert, err
}
