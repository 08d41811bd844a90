package plane

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var someDay = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func certificates(t *testing.T, dir, cidr string, now time.Time) *pki {
	t.Helper()
	p, err := ensurePKI(dir, cidr, now)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(p.ca.cert)
	for name, c := range map[string]*pair{"serving": p.serving, "admin": p.admin, "kubelet": p.kubelet} {
		if _, err := c.cert.Verify(x509.VerifyOptions{
			Roots: roots, CurrentTime: now,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
		}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := p.serving.cert.VerifyHostname("127.0.0.1"); err != nil {
		t.Error(err)
	}
	return p
}

func TestCertificatesAreKeptUntilTheyMustChange(t *testing.T) {
	dir := t.TempDir()
	first := certificates(t, dir, "10.96.0.0/16", someDay)

	again := certificates(t, dir, "10.96.0.0/16", someDay.AddDate(0, 6, 0))
	if !again.ca.cert.Equal(first.ca.cert) || !again.serving.cert.Equal(first.serving.cert) ||
		!again.admin.cert.Equal(first.admin.cert) {
		t.Error("half a year later they should be the same")
	}

	old := certificates(t, dir, "10.96.0.0/16", someDay.AddDate(2, 0, 0))
	if !old.ca.cert.Equal(first.ca.cert) || old.serving.cert.Equal(first.serving.cert) ||
		old.admin.cert.Equal(first.admin.cert) {
		t.Error("two years later the authority should be the same and what it signed be new")
	}

	moved := certificates(t, dir, "10.100.0.0/16", someDay.AddDate(2, 0, 0))
	if moved.serving.cert.Equal(old.serving.cert) || moved.serving.cert.VerifyHostname("10.100.0.1") != nil {
		t.Error("other Service addresses need another serving certificate")
	}
	if !moved.admin.cert.Equal(old.admin.cert) {
		t.Error("the user's certificate has nothing to do with that")
	}
}

func TestUnreadableCertificatesAreReplaced(t *testing.T) {
	dir := t.TempDir()
	first := certificates(t, dir, "10.96.0.0/16", someDay)
	for _, f := range []string{"ca.crt", "service-account.pub"} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte("?"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key, err := os.ReadFile(first.serviceAccountKey)
	if err != nil {
		t.Fatal(err)
	}
	second := certificates(t, dir, "10.96.0.0/16", someDay)
	if second.ca.cert.Equal(first.ca.cert) || second.admin.cert.Equal(first.admin.cert) {
		t.Error("a new authority must sign everything anew")
	}
	if kept, _ := os.ReadFile(second.serviceAccountKey); string(kept) != string(key) {
		t.Error("the service account key was fine and should stay: tokens depend on it")
	}
}
