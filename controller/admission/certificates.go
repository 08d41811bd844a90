package admission

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

// How long a certificate is valid, how long before its expiry its successor is created, and how long the successor is
// published before it is used, so that every API server trusts it by then. The old one stays published as long again:
// another replica may serve it until it looks for the time again.
const (
	validity  = 90 * 24 * time.Hour
	renewal   = 30 * 24 * time.Hour
	published = time.Hour
	skew      = 5 * time.Minute // how far an API server's clock may be behind
)

// pair is a self-signed CA certificate and its key, both as PEM.
type pair struct {
	cert, key []byte
	parsed    *x509.Certificate
}

// certificates are the pair in use and, near its end, its successor, which is in use, too, before it takes its place.
type certificates struct{ current, next *pair }

// bundle returns the certificates that API servers must trust.
func (c certificates) bundle() []byte {
	out := slices.Clone(c.current.cert)
	if c.next != nil {
		out = append(out, c.next.cert...)
	}
	return out
}

// step creates certificates if there are none for the hosts, and renews or promotes them when due. It reports whether
// anything changed; a change must be stored before it is used.
func (c certificates) step(now time.Time, hosts []string) (certificates, bool, error) {
	switch {
	case c.current == nil || !c.current.serves(hosts) || now.After(c.current.parsed.NotAfter):
		made, err := newPair(now, hosts)
		return certificates{current: made}, true, err
	case c.next != nil && !c.next.serves(hosts):
		c.next = nil
		return c, true, nil
	case c.next != nil && now.Sub(c.next.parsed.NotBefore) >= 2*published+skew:
		return certificates{current: c.next}, true, nil
	case c.next == nil && c.current.parsed.NotAfter.Sub(now) < renewal:
		made, err := newPair(now, hosts)
		c.next = made
		return c, true, err
	}
	return c, false, nil
}

// served returns the pair that is served at a time. It depends on the time alone, not on which replica looks first.
func (c certificates) served(now time.Time) *pair {
	if c.next != nil && now.Sub(c.next.parsed.NotBefore) >= published+skew {
		return c.next
	}
	return c.current
}

func (p *pair) serves(hosts []string) bool {
	return !slices.ContainsFunc(hosts, func(h string) bool { return p.parsed.VerifyHostname(h) != nil })
}

// tls returns the pair as a tls.Certificate.
func (p *pair) tls() (*tls.Certificate, error) {
	c, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		return nil, fmt.Errorf("certificate of the webhook: %w", err)
	}
	return &c, nil
}

func newPair(now time.Time, hosts []string) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the webhook's key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("make the webhook's certificate: %w", err)
	}
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "nodeless-webhook", SerialNumber: serial.Text(16)},
		NotBefore: now.Add(-skew), NotAfter: now.Add(validity), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make the webhook's certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("make the webhook's key: %w", err)
	}
	return readPair(
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

// readPair reads a pair from PEM.
func readPair(cert, key []byte) (*pair, error) {
	both, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(both.Certificate[0])
	if err != nil {
		return nil, err
	}
	return &pair{cert: cert, key: key, parsed: parsed}, nil
}
