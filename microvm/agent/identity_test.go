package agent

import (
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// token returns a token of a subject, valid for an hour from noon.
func token(subject string) string {
	body := fmt.Sprintf(`{"sub":%q,"iat":%d,"exp":%d}`, subject, noon.Unix(), noon.Add(time.Hour).Unix())
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(body)) + ".c2ln\n"
}

func TestATokenForJoiningIsLookedAtFirst(t *testing.T) {
	const its = "system:serviceaccount:nodeless-host-h1:host"
	for name, c := range map[string]struct {
		token string
		now   time.Time
		want  string // part of the error; "" = none
	}{
		"a host's":          {token(its), noon.Add(time.Minute), ""},
		"made just now":     {token(its), noon.Add(-30 * time.Second), ""},
		"a clock behind":    {token(its), noon.Add(-time.Hour), "set the clock"},
		"expired":           {token(its), noon.Add(2 * time.Hour), "nodeless host token h1"},
		"somebody else's":   {token("system:serviceaccount:default:default"), noon, "system:serviceaccount:default:default"},
		"no token":          {"abcdef.0123456789abcdef", noon, "no token of a service account"},
		"nothing":           {"", noon, "no token of a service account"},
		"an unreadable one": {"a.%%.c", noon, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			claims, err := ParseToken(c.token, c.now)
			if err == nil {
				err = claims.check(c.now)
			}
			if c.want == "" && (err != nil || claims.Host != "h1") {
				t.Errorf("host %q, %v", claims.Host, err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	claims, _ := ParseToken(token(its), noon)
	if got := due(claims); !got.Equal(noon.Add(48 * time.Minute)) {
		t.Errorf("it is renewed at %s", got)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	for want, err := range map[string]error{
		"make another one with \"nodeless host token h1\"":  apierrors.NewUnauthorized("no"),
		"another cluster, or the connection is intercepted": x509.UnknownAuthorityError{},
		"this machine's clock says 2026-03-01T12:00:00Z":    x509.CertificateInvalidError{Reason: x509.Expired},
		"cannot be reached from this machine":               &net.OpError{Op: "dial", Err: errors.New("refused")},
	} {
		if got := Explain(fmt.Errorf("act: %w", err), "https://192.0.2.1", "h1", noon); !strings.Contains(got.Error(),
			want) || !errors.Is(got, err) && want[0] != 'a' {
			t.Errorf("got %v, want %q", got, want)
		}
	}
}

func TestEachHostHasAddressesOfItsOwn(t *testing.T) {
	first, err := Enrolment{}.block(nil)
	if err != nil || first.String() != "10.202.0.0/20" {
		t.Fatal(first, err)
	}
	second, err := Enrolment{}.block([]netip.Prefix{first})
	if err != nil || second.String() != "10.202.16.0/20" {
		t.Error(second, err)
	}
	if _, err := (Enrolment{PodCIDR: "10.202.8.0/24"}).block([]netip.Prefix{first}); err == nil {
		t.Error("addresses of another host were given away")
	}
	for _, wrong := range []Enrolment{
		{Host: "A_b", TTL: time.Hour},
		{Host: strings.Repeat("x", 60), TTL: time.Hour},
		{Host: "h", TTL: time.Minute},
		{Host: "h", TTL: time.Hour, PodCIDR: "10.0.0.0/8"},
		{Host: "h", TTL: time.Hour, PodCIDR: "10.202.0.1/20"},
		{Host: "h", TTL: time.Hour, PodCIDR: "fd00::/64"},
	} {
		if err := wrong.check(); err == nil {
			t.Errorf("%+v is taken", wrong)
		}
	}
}
