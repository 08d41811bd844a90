package plane

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 365 * 24 * time.Hour
	renewBefore   = 30 * 24 * time.Hour
)

// pair is a certificate and its key, in memory and as files.
type pair struct {
	cert              *x509.Certificate
	key               *ecdsa.PrivateKey
	certPEM, keyPEM   []byte
	certFile, keyFile string
}

// pki holds the credentials of the components. The front proxy has its own CA, since the holder of one of its
// certificates may impersonate any user.
type pki struct {
	ca, frontCA                         *pair
	serving, kubelet, front             *pair
	admin, controllerManager, scheduler *pair
	serviceAccountKey                   string // private key file
	serviceAccountPub                   string // public key file
}

// ensurePKI loads the certificates in dir and issues those that are missing, unreadable, signed by another CA, for
// other names, or about to expire.
func ensurePKI(dir, serviceCIDR string, now time.Time) (*pki, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	first, err := serviceIP(serviceCIDR)
	if err != nil {
		return nil, err
	}
	var p pki
	for _, c := range []struct {
		into **pair
		file string
		want x509.Certificate
		by   **pair // nil: signs itself
	}{
		{&p.ca, "ca", authority("nodeless"), nil},
		{&p.frontCA, "front-proxy-ca", authority("nodeless-front-proxy"), nil},
		{&p.serving, "kube-apiserver", server("kube-apiserver", first), &p.ca},
		{&p.kubelet, "kube-apiserver-kubelet-client", clientOf("kube-apiserver-kubelet-client", "system:masters"), &p.ca},
		{&p.front, "front-proxy-client", clientOf("front-proxy-client", ""), &p.frontCA},
		{&p.admin, "admin", clientOf("nodeless-admin", "system:masters"), &p.ca},
		{
			&p.controllerManager, "kube-controller-manager", clientOf("system:kube-controller-manager", "system:masters"),
			&p.ca,
		},
		{&p.scheduler, "kube-scheduler", clientOf("system:kube-scheduler", "system:masters"), &p.ca},
	} {
		var by *pair
		if c.by != nil {
			by = *c.by
		}
		if *c.into, err = ensurePair(filepath.Join(dir, c.file), c.want, by, now); err != nil {
			return nil, fmt.Errorf("certificate %s: %w", c.file, err)
		}
	}
	p.serviceAccountKey, p.serviceAccountPub = filepath.Join(dir, "service-account.key"),
		filepath.Join(dir, "service-account.pub")
	if err := ensureKey(p.serviceAccountKey, p.serviceAccountPub); err != nil {
		return nil, fmt.Errorf("service account key: %w", err)
	}
	return &p, nil
}

func authority(name string) x509.Certificate {
	return x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
}

func server(name string, service net.IP) x509.Certificate {
	return x509.Certificate{
		Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), service},
	}
}

func clientOf(name, group string) x509.Certificate {
	c := x509.Certificate{
		Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if group != "" {
		c.Subject.Organization = []string{group}
	}
	return c
}

func ensurePair(base string, want x509.Certificate, by *pair, now time.Time) (*pair, error) {
	p := &pair{certFile: base + ".crt", keyFile: base + ".key"}
	if p.load() == nil && p.serves(want, by, now) {
		return p, nil
	}
	return p, p.issue(want, by, now)
}

// load reads both files. It fails if they are unusable.
func (p *pair) load() (err error) {
	if p.certPEM, err = os.ReadFile(p.certFile); err != nil {
		return err
	}
	if p.keyPEM, err = os.ReadFile(p.keyFile); err != nil {
		return err
	}
	certs, err := cert.ParseCertsPEM(p.certPEM)
	if err != nil {
		return err
	}
	p.cert = certs[0]
	p.key, err = parseKey(p.keyPEM)
	return err
}

// serves reports whether a loaded pair still meets the requirements.
func (p *pair) serves(want x509.Certificate, by *pair, now time.Time) bool {
	signer := p
	if by != nil {
		signer = by
	}
	return p.key.PublicKey.Equal(p.cert.PublicKey) &&
		now.After(p.cert.NotBefore) && now.Add(renewBefore).Before(p.cert.NotAfter) &&
		p.cert.CheckSignatureFrom(signer.cert) == nil &&
		p.cert.Subject.CommonName == want.Subject.CommonName &&
		slices.Equal(p.cert.Subject.Organization, want.Subject.Organization) &&
		slices.Equal(p.cert.DNSNames, want.DNSNames) &&
		slices.EqualFunc(p.cert.IPAddresses, want.IPAddresses, net.IP.Equal)
}

func (p *pair) issue(want x509.Certificate, by *pair, now time.Time) (err error) {
	if p.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return err
	}
	if want.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return err
	}
	want.NotBefore, want.NotAfter = now.Add(-time.Hour), now.Add(leafLife)
	signer, signerKey := &want, p.key
	if by == nil {
		want.NotAfter = now.Add(authorityLife)
	} else {
		signer, signerKey = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, &want, signer, &p.key.PublicKey, signerKey)
	if err != nil {
		return err
	}
	if p.cert, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	if p.keyPEM, err = keyutil.MarshalPrivateKeyToPEM(p.key); err != nil {
		return err
	}
	p.certPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return errors.Join(writeFile(p.keyFile, p.keyPEM), writeFile(p.certFile, p.certPEM))
}

func parseKey(text []byte) (*ecdsa.PrivateKey, error) {
	parsed, err := keyutil.ParsePrivateKeyPEM(text)
	key, ok := parsed.(*ecdsa.PrivateKey)
	if err == nil && !ok {
		err = errors.New("not an ECDSA key")
	}
	return key, err
}

// ensureKey keeps the key that signs service account tokens, or creates it: a new key would invalidate all tokens.
func ensureKey(private, public string) error {
	text, err := os.ReadFile(private)
	var key *ecdsa.PrivateKey
	if err == nil {
		key, err = parseKey(text)
	}
	if err != nil {
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return err
		}
		raw, err := keyutil.MarshalPrivateKeyToPEM(key)
		if err != nil {
			return err
		}
		if err := writeFile(private, raw); err != nil {
			return err
		}
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	want := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	if have, err := os.ReadFile(public); err == nil && bytes.Equal(have, want) {
		return nil
	}
	return writeFile(public, want)
}

// writeKubeconfigs writes the kubeconfigs of the user and of the components, with the current port and certificates.
func (p *Plane) writeKubeconfigs() error {
	for path, who := range map[string]*pair{
		p.Kubeconfig():                           p.pki.admin,
		p.componentKubeconfig(controllerManager): p.pki.controllerManager,
		p.componentKubeconfig(scheduler):         p.pki.scheduler,
	} {
		raw, err := clientcmd.Write(*p.kubeconfig(who))
		if err != nil {
			return fmt.Errorf("write kubeconfig: %w", err)
		}
		if err := writeFile(path, raw); err != nil {
			return fmt.Errorf("write kubeconfig: %w", err)
		}
	}
	return nil
}

func (p *Plane) componentKubeconfig(name string) string {
	return filepath.Join(p.dir, "pki", name+".kubeconfig")
}

func (p *Plane) kubeconfig(who *pair) *clientcmdapi.Config {
	const name = "nodeless"
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{Server: p.APIServerURL(), CertificateAuthorityData: p.pki.ca.certPEM}
	c.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: who.certPEM, ClientKeyData: who.keyPEM}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	c.CurrentContext = name
	return c
}
