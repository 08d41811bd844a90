package admission

import (
	"crypto/x509"
	"testing"
	"time"
)

func trusts(t *testing.T, bundle []byte, p *pair, host string, at time.Time) bool {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		t.Fatal("the bundle has no certificates")
	}
	_, err := p.parsed.Verify(x509.VerifyOptions{
		Roots: pool, DNSName: host, CurrentTime: at,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err == nil
}

// Checked every 6 hours for three years: a client that trusts the previous check's bundle trusts the certificate
// served now.
func TestCertificatesAreRenewedWithoutAGap(t *testing.T) {
	hosts := []string{"nodeless.kube-system.svc"}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	certs, changed, err := certificates{}.step(now, hosts)
	if err != nil || !changed {
		t.Fatal(changed, err)
	}
	pairs := 1
	for range 3 * 365 * 4 {
		before := certs
		now = now.Add(6 * time.Hour)
		if certs, _, err = certs.step(now, hosts); err != nil {
			t.Fatal(err)
		}
		if !trusts(t, before.bundle(), certs.served(now), hosts[0], now) {
			t.Fatalf("%s: an API server that was told 6 hours ago does not trust what is served", now)
		}
		if certs.current != before.current {
			pairs++
		}
	}
	if want := 3 * 365 / 60; pairs < want || pairs > want+2 {
		t.Errorf("%d certificates in three years, want about %d", pairs, want)
	}
}

// Replicas look at the time once a minute each. Around a renewal, an API server that was told by the first one still
// trusts what the other one serves, and the other way round.
func TestARenewalIsTrustedWhicheverReplicaIsFirst(t *testing.T) {
	hosts := []string{"nodeless.kube-system.svc"}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	certs, _, err := certificates{}.step(now, hosts)
	if err != nil {
		t.Fatal(err)
	}
	first := certs.current
	now = certs.current.parsed.NotAfter.Add(-renewal - time.Hour)
	for range 6 * 60 {
		before, earlier := certs, now
		now = now.Add(interval)
		if certs, _, err = certs.step(now, hosts); err != nil {
			t.Fatal(err)
		}
		if !trusts(t, certs.bundle(), before.served(earlier), hosts[0], now) {
			t.Fatalf("%s: what was served a minute ago is not trusted any more", now)
		}
		if !trusts(t, before.bundle(), certs.served(now), hosts[0], now) {
			t.Fatalf("%s: what is served is not trusted by who was told a minute ago", now)
		}
	}
	if certs.current == first || certs.next != nil {
		t.Error("it was not renewed")
	}
}

// API servers receive the next certificate some time before it is served.
func TestTheNextCertificateIsPublishedBeforeItIsUsed(t *testing.T) {
	hosts := []string{"nodeless.kube-system.svc"}
	made := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	certs, _, err := certificates{}.step(made, hosts)
	if err != nil {
		t.Fatal(err)
	}
	renewed := certs.current.parsed.NotAfter.Add(-renewal + time.Second)
	if certs, _, err = certs.step(renewed, hosts); err != nil || certs.next == nil {
		t.Fatal("it was not renewed", err)
	}
	next := certs.next
	before, after := renewed.Add(published-time.Second), renewed.Add(published)
	if early, _, err := certs.step(before, hosts); err != nil || early.served(before) == next {
		t.Error("it is served before it was published long enough", err)
	}
	if in, _, err := certs.step(after, hosts); err != nil || in.served(after) != next {
		t.Error("it was published long enough and is not served", err)
	}
}

func TestCertificatesAreMadeAnewWhenTheyCannotServe(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	first, _, err := certificates{}.step(now, []string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	same, changed, _ := first.step(now.Add(time.Hour), []string{"127.0.0.1"})
	if changed || same.current != first.current {
		t.Error("renewed too early")
	}
	for what, c := range map[string]struct {
		at   time.Time
		host string
	}{
		"another place":            {now, "192.0.2.1"},
		"nobody looked for months": {now.Add(200 * 24 * time.Hour), "127.0.0.1"},
	} {
		made, changed, err := first.step(c.at, []string{c.host})
		if err != nil || !changed || !trusts(t, made.bundle(), made.current, c.host, c.at) {
			t.Errorf("%s: changed %v, %v", what, changed, err)
		}
	}
}

func TestPlaces(t *testing.T) {
	for text, want := range map[string]string{
		"https://192.0.2.1:9443":               "192.0.2.1",
		"https://nodeless.kube-system.svc":     "nodeless.kube-system.svc",
		"https://nodeless.kube-system.svc:123": "nodeless.kube-system.svc",
		"http://192.0.2.1:9443":                "",
		"https://":                             "",
		"https://a.b.c.svc":                    "",
		"https://x@host":                       "",
		"https://host/path":                    "",
		"::":                                   "",
	} {
		p, err := ParsePlace(text)
		if (err == nil) != (want != "") || err == nil && p.hosts()[0] != want {
			t.Errorf("%s: %v, %v; want %q", text, p, err, want)
		}
	}
	p, _ := ParsePlace("https://nodeless.kube-system.svc")
	if c := p.client("/x", nil); c.Service == nil || c.Service.Namespace != "kube-system" ||
		c.Service.Name != "nodeless" || *c.Service.Port != 443 || *c.Service.Path != "/x" {
		t.Errorf("got %+v", c)
	}
	p, _ = ParsePlace("https://192.0.2.1:9443")
	if c := p.client("/x", nil); c.URL == nil || *c.URL != "https://192.0.2.1:9443/x" {
		t.Errorf("got %+v", c)
	}
}
