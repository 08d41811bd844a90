package agent

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/controller/rbac"
	"github.com/nodeless/nodeless/internal/kit/atomicfile"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// Lifetime is the lifetime of a host's token, which is renewed after four fifths of it. A host that is down for
// longer must join again.
const Lifetime = 24 * time.Hour

// Claims are the claims of a service account's token.
type Claims struct {
	Host              string // "" if the token is not a host's
	Issued, Expires   time.Time
	subject           string
	NotYet, IsExpired bool
}

// skew is the tolerated difference between clocks.
const skew = time.Minute

// ParseToken decodes a token. It does not verify it; the API server does.
func ParseToken(token string, now time.Time) (Claims, error) {
	parts := strings.Split(strings.TrimSpace(token), ".")
	var said struct {
		Subject string  `json:"sub"`
		Issued  float64 `json:"iat"`
		Expires float64 `json:"exp"`
	}
	if len(parts) != 3 {
		return Claims{}, errors.New("it is no token of a service account; make one with \"nodeless host token NAME\"")
	}
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(body, &said)
	}
	if err != nil {
		return Claims{}, fmt.Errorf("it cannot be read: %w; make another one with \"nodeless host token NAME\"", err)
	}
	c := Claims{
		subject: said.Subject, Issued: time.Unix(int64(said.Issued), 0), Expires: time.Unix(int64(said.Expires), 0),
	}
	if rest, ok := strings.CutPrefix(said.Subject, "system:serviceaccount:"+v1alpha1.HostNamespace("")); ok {
		c.Host, _ = strings.CutSuffix(rest, ":"+rbac.HostAccount)
	}
	c.NotYet, c.IsExpired = now.Before(c.Issued.Add(-skew)), now.After(c.Expires)
	return c, nil
}

// check returns why a host cannot join with a token.
func (c Claims) check(now time.Time) error {
	switch {
	case c.Host == "":
		return fmt.Errorf("it is not a host's but that of %q; make one with \"nodeless host token NAME\"", c.subject)
	case c.NotYet:
		return fmt.Errorf("it was made at %s, and this machine's clock says %s: set the clock",
			c.Issued.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case c.IsExpired:
		return fmt.Errorf("it expired at %s (this machine's clock says %s); make another one with \"nodeless host token %s\"",
			c.Expires.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339), c.Host)
	}
	return nil
}

// Identity is the identity of a host, kept in a directory as a kubeconfig and the token that it refers to.
type Identity struct {
	Dir  string
	Host string
	REST *rest.Config
}

func (i *Identity) tokenFile() string { return filepath.Join(i.Dir, "token") }

// LoadIdentity returns the identity in a directory, or nil if there is none or it has expired.
func LoadIdentity(dir string, now time.Time) (*Identity, error) {
	i := &Identity{Dir: dir}
	token, err := os.ReadFile(i.tokenFile())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("identity of this host: %w", err)
	}
	claims, err := ParseToken(string(token), now)
	if err != nil {
		return nil, fmt.Errorf("token in %s: %w", i.tokenFile(), err)
	}
	if claims.IsExpired {
		return nil, nil
	}
	i.Host = claims.Host
	i.REST, err = clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	if err != nil {
		return nil, fmt.Errorf("identity of this host: %w", err)
	}
	return i, nil
}

// Join exchanges the token with which a host joins for one of the host's own, which it stores in a directory. The
// token that was joined with becomes invalid.
func Join(ctx context.Context, join *rest.Config, dir string, now time.Time) (*Identity, error) {
	claims, err := ParseToken(join.BearerToken, now)
	if err == nil {
		err = claims.check(now)
	}
	if err != nil {
		return nil, fmt.Errorf("the token: %w", err)
	}
	i := &Identity{Dir: dir, Host: claims.Host, REST: rest.CopyConfig(join)}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if _, err := i.renew(ctx); err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(join)
	if err != nil {
		return nil, err
	}
	err = kube.CoreV1().Secrets(v1alpha1.HostNamespace(i.Host)).Delete(ctx, rbac.HostJoin, metav1.DeleteOptions{})
	switch {
	case apierrors.IsNotFound(err): // API servers accept a token for some seconds after its Secret is deleted
		err = fmt.Errorf("the token was used before; make another one with \"nodeless host token %s\"", i.Host)
	case err != nil:
		err = fmt.Errorf("revoke the token that was used to join: %w", err)
	default:
		err = i.save(join)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(i.tokenFile()))
	}
	return LoadIdentity(dir, now)
}

// save writes the kubeconfig.
func (i *Identity) save(join *rest.Config) error {
	c := clientcmdapi.NewConfig()
	c.Clusters["cluster"] = &clientcmdapi.Cluster{
		Server: join.Host, CertificateAuthorityData: join.CAData, TLSServerName: join.ServerName,
	}
	c.AuthInfos["host"] = &clientcmdapi.AuthInfo{TokenFile: i.tokenFile()}
	c.Contexts["host"] = &clientcmdapi.Context{Cluster: "cluster", AuthInfo: "host"}
	c.CurrentContext = "host"
	return clientcmd.WriteToFile(*c, filepath.Join(i.Dir, "kubeconfig"))
}

// renew requests and stores a new token, and returns when to renew it.
func (i *Identity) renew(ctx context.Context) (time.Time, error) {
	kube, err := kubernetes.NewForConfig(i.REST)
	if err != nil {
		return time.Time{}, err
	}
	got, err := kube.CoreV1().ServiceAccounts(v1alpha1.HostNamespace(i.Host)).CreateToken(ctx, rbac.HostAccount,
		&authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(Lifetime / time.Second))},
		}, metav1.CreateOptions{})
	if err != nil {
		return time.Time{}, fmt.Errorf("get a token of its own: %w", err)
	}
	claims, err := ParseToken(got.Status.Token, time.Now())
	if err != nil {
		return time.Time{}, err
	}
	return due(claims), atomicfile.Write(i.tokenFile(), []byte(got.Status.Token))
}

// due returns when to renew a token.
func due(c Claims) time.Time { return c.Issued.Add(c.Expires.Sub(c.Issued) / 5 * 4) }

// KeepFresh renews the token before it expires, until ctx is done.
func (i *Identity) KeepFresh(ctx context.Context, log *slog.Logger) {
	at := time.Now()
	if token, err := os.ReadFile(i.tokenFile()); err == nil {
		if claims, err := ParseToken(string(token), at); err == nil {
			at = due(claims)
		}
	}
	for clock.Sleep(ctx, clock.Real{}, time.Until(at)) == nil {
		var err error
		if at, err = i.renew(ctx); err != nil {
			log.Warn("cannot renew the token of this host; retrying", "error", err)
			at = time.Now().Add(time.Minute)
		}
	}
}

// Explain adds to an error from the API server what the user can do about it.
func Explain(err error, server, host string, now time.Time) error {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	var network net.Error
	again := fmt.Sprintf("make another one with \"nodeless host token %s\"", host)
	switch {
	case err == nil:
		return nil
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s does not accept the token: it has expired, was used before or has been revoked; %s: %w",
			server, again, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the host lacks permissions; grant them with \"nodeless host token %s\": %w", host, err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the cluster knows no host %s (any more); %s: %w", host, again, err)
	case errors.As(err, &unknown):
		return fmt.Errorf("the certificate of %s is not signed by the given certificate authority (--ca-file, or the file "+
			"of --join): it is another cluster, or the connection is intercepted: %w", server, err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("the certificate of %s is not valid now; this machine's clock says %s, see whether that is "+
			"right: %w", server, now.UTC().Format(time.RFC3339), err)
	case errors.As(err, &name):
		return fmt.Errorf("the certificate of %s is for other names; give --server one of them: %w", server, err)
	case errors.As(err, &network):
		return fmt.Errorf("%s cannot be reached from this machine: %w", server, err)
	}
	return err
}
