package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

// validity is how long a self-signed certificate is valid.
const validity = 365 * 24 * time.Hour

// Certificate loads a certificate from two PEM files. Without files, it makes a self-signed one for an address and
// this machine's names. fingerprint is the certificate's SHA-256, by which people recognise it.
func Certificate(certFile, keyFile, address string, now time.Time) (cfg *tls.Config, fingerprint string, err error) {
	var pair tls.Certificate
	switch {
	case certFile == "" && keyFile == "":
		pair, err = own(address, now)
	case certFile == "" || keyFile == "":
		return nil, "", errors.New("a certificate needs its key, and a key its certificate: give both files, or neither " +
			"for a certificate of the page's own")
	default:
		pair, err = tls.LoadX509KeyPair(certFile, keyFile)
	}
	if err != nil {
		return nil, "", fmt.Errorf("the page's certificate: %w", err)
	}
	sum := sha256.Sum256(pair.Certificate[0])
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}, fmt.Sprintf("%X", sum), nil
}

func own(address string, now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return tls.Certificate{}, err
	}
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "nodeless page"}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.Add(validity),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if name, err := os.Hostname(); err == nil {
		t.DNSNames = append(t.DNSNames, name)
	}
	if host, _, err := net.SplitHostPort(address); err == nil {
		if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else if ip == nil && host != "" {
			t.DNSNames = append(t.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
