package access_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	authn "k8s.io/api/authentication/v1"
	authz "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/controller/rbac"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/plane/planetest"
	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/access"
	"github.com/nodeless/nodeless/view/viewtest"
	"github.com/nodeless/nodeless/view/web"
)

func TestMain(m *testing.M) { planetest.Main(m) }

// story is a page behind a login, whose cluster decides who may see what. The page's pods are made up, in namespaces
// of that cluster.
type story struct {
	*testing.T
	api        client.Client
	kube       kubernetes.Interface
	clock      *clock.Virtual
	mine, hers string // namespaces with a pod each, on the same node
	url        string
	roots      *x509.CertPool
}

func tell(t *testing.T) *story {
	p := planetest.Start(t)
	s := &story{
		T: t, clock: clock.NewVirtual(viewtest.Now), mine: planetest.Namespace(t, p),
		hers: planetest.Namespace(t, p), roots: x509.NewCertPool(),
	}
	var err error
	if s.api, err = client.New(p.RESTConfig(), client.Options{}); err == nil {
		s.kube, err = kubernetes.NewForConfig(p.RESTConfig())
	}
	if err != nil {
		t.Fatal(err)
	}
	m, _ := viewtest.Cluster(2, 0)
	for _, n := range []string{s.mine, s.hers} {
		m.SetPod(&view.Pod{
			UID: "uid-of-" + n, Namespace: n, Name: "pod-of-" + n, Node: viewtest.NodeName(0),
			Phase: view.Running, Requests: view.Amounts{1000},
		})
	}
	reviewer, err := access.New(p.RESTConfig(), s.clock, m.Namespaces, rbac.ViewRules())
	if err != nil {
		t.Fatal(err)
	}
	if err := reviewer.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := web.ListenAnywhere(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config, _, err := access.Certificate("", "", l.Addr().String(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(config.Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	s.roots.AddCert(leaf)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- web.New(web.Options{
			Context: "story", Model: m, Clock: s.clock,
			Gate: &web.Gate{TLS: config, Review: reviewer.Review},
		}).Run(ctx, l)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	s.url = "https://" + l.Addr().String()
	return s
}

func (s *story) create(o client.Object) {
	s.Helper()
	if err := s.api.Create(context.Background(), o); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = client.IgnoreNotFound(s.api.Delete(context.Background(), o)) })
}

// account creates a service account with a token.
func (s *story) account(name string) (subject rbacv1.Subject, token string) {
	s.Helper()
	s.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.mine, Name: name}})
	r, err := s.kube.CoreV1().ServiceAccounts(s.mine).CreateToken(s.Context(), name, &authn.TokenRequest{},
		metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: s.mine, Name: name}, r.Status.Token
}

// everywhere grants rules in the whole cluster.
func (s *story) everywhere(who rbacv1.Subject, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRoleBinding {
	name := who.Namespace + "-" + who.Name
	s.create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})
	b := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{who},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	}
	s.create(b)
	s.granted(who, "", rules[len(rules)-1])
	return b
}

// granted waits until the API server's authorizer knows a role by one of its rules. If namespace is "", it is a
// cluster role.
func (s *story) granted(who rbacv1.Subject, namespace string, rule rbacv1.PolicyRule) {
	s.Helper()
	planetest.Eventually(s, "the API server knows the role of "+who.Name, func(ctx context.Context) error {
		review, err := s.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx,
			&authz.SubjectAccessReview{Spec: authz.SubjectAccessReviewSpec{
				User: "system:serviceaccount:" + who.Namespace + ":" + who.Name,
				ResourceAttributes: &authz.ResourceAttributes{
					Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: rule.Resources[0],
				},
			}}, metav1.CreateOptions{})
		if err == nil && !review.Status.Allowed {
			err = errors.New(review.Status.Reason)
		}
		return err
	})
}

func (s *story) client() *http.Client {
	jar, _ := cookiejar.New(nil)
	c := &http.Client{
		Jar:       jar,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS12}},
	}
	s.Cleanup(c.CloseIdleConnections)
	return c
}

func (s *story) get(path, token string) (int, string) {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		s.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := s.client().Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// becomes waits until a request is answered with a status: the API server's authorizer learns of roles that are
// deleted with a delay, and the page caches its answers for half a minute.
func (s *story) becomes(status int, path, token string) (text string) {
	s.Helper()
	planetest.Eventually(s, fmt.Sprintf("%s is answered with %d", path, status), func(context.Context) error {
		s.clock.Advance(access.Remember)
		var got int
		if got, text = s.get(path, token); got != status {
			return fmt.Errorf("status %d: %s", got, text)
		}
		return nil
	})
	return text
}

func TestNobodyIsLetInWithoutAToken(t *testing.T) {
	s := tell(t)
	for _, token := range []string{"", "made-up", strings.Repeat("x", 100_000)} {
		for _, path := range []string{
			"/", "/lite", "/main.js", "/api/stream", "/api/history",
			"/api/pods?node=" + viewtest.NodeName(0), "/api/who", "/no-such",
		} {
			status, text := s.get(path, token)
			if status != http.StatusUnauthorized && len(token) < 1000 || status < 400 || strings.Contains(text, "pod-of") ||
				strings.Contains(text, "ip-10-") {
				t.Errorf("%s with token %.10q: %d %s", path, token, status, text)
			}
		}
	}
	if status, text := s.get("/login", ""); status != http.StatusOK || !strings.Contains(text, "kubectl create token") {
		t.Errorf("the form to log in: %d %s", status, text)
	}
}

func TestWhoMayListNothingIsToldWhatLacks(t *testing.T) {
	s := tell(t)
	_, token := s.account("nobody")
	status, text := s.get("/api/history", token)
	if status != http.StatusForbidden ||
		!strings.Contains(text, "system:serviceaccount:"+s.mine+":nobody may list neither nodes nor pods") ||
		!strings.Contains(text, "nodeless rbac --view") {
		t.Errorf("%d %s", status, text)
	}
}

func TestAViewerSeesEverythingUntilTheyMayNotAnyMore(t *testing.T) {
	s := tell(t)
	who, token := s.account("viewer")
	binding := s.everywhere(who, rbac.ViewRules()...)
	pods := s.becomes(http.StatusOK, "/api/pods?node="+viewtest.NodeName(0), token)
	if !strings.Contains(pods, "pod-of-"+s.mine) || !strings.Contains(pods, "pod-of-"+s.hers) {
		t.Errorf("not all pods are shown: %s", pods)
	}
	if _, lite := s.get("/lite", token); !strings.Contains(lite, "m7g.2xlarge") || strings.Contains(lite, "you may not") {
		t.Errorf("the page says %s", lite)
	}
	// The page distinguishes what it does not have from what the user may not see.
	if status, text := s.get("/api/decisions", token); status != http.StatusNotImplemented {
		t.Errorf("decisions: %d %s", status, text)
	}
	if status, text := s.get("/api/usage", token); status != http.StatusOK {
		t.Errorf("what nodes use: %d %s", status, text)
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/api/stream", nil)
	req.Header.Set("Authorization", "Bearer "+token)
	stream, err := s.client().Do(req)
	if err != nil || stream.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", err, stream)
	}
	defer stream.Body.Close()
	ended := make(chan struct{})
	go func() { defer close(ended); _, _ = io.Copy(io.Discard, stream.Body) }()
	if err := s.api.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	s.becomes(http.StatusForbidden, "/api/history", token)
	planetest.Eventually(t, "the stream ends", func(context.Context) error {
		s.clock.Advance(access.Remember)
		select {
		case <-ended:
			return nil
		default:
			return errors.New("it goes on")
		}
	})
}

func TestWhoMaySeeOneNamespaceSeesItsPodsAlone(t *testing.T) {
	s := tell(t)
	who, token := s.account("tenant")
	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}
	s.create(&rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.mine, Name: "tenant"}, Rules: []rbacv1.PolicyRule{rule},
	})
	s.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.mine, Name: "tenant"}, Subjects: []rbacv1.Subject{who},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tenant"},
	})
	s.granted(who, s.mine, rule)
	pods := s.becomes(http.StatusOK, "/api/pods?node="+viewtest.NodeName(0), token)
	_, lite := s.get("/lite", token)
	_, found := s.get("/api/find?q=pod-of", token)
	for name, text := range map[string]string{"pods": pods, "lite": lite, "find": found} {
		if strings.Contains(text, s.hers) || strings.Contains(text, "m7g.2xlarge") || strings.Contains(text, "general") {
			t.Errorf("%s tells of what is not theirs: %s", name, text)
		}
	}
	if !strings.Contains(pods, "pod-of-"+s.mine) || !strings.Contains(lite, viewtest.NodeName(0)) ||
		strings.Contains(lite, viewtest.NodeName(1)) {
		t.Errorf("their own is not shown: %s\n%s", pods, lite)
	}
	if !strings.Contains(lite, "only pods of "+s.mine+" are shown") ||
		!strings.Contains(lite, "not shown, because you may not list them: nodes") {
		t.Errorf("what is left out is not said: %s", lite)
	}
	for path, lacks := range map[string]string{
		"/api/why?of=pod/x&namespace=" + s.hers: "pods of the whole cluster",
		"/api/pending":                          "pods of", "/api/decisions": "decisionlogs.nodeless.sh",
		"/api/addresses": "pods of", "/api/hosts": "microvmhosts.nodeless.sh",
		"/lite/savings": "decisionlogs.nodeless.sh", "/api/usage": "nodes.metrics.k8s.io",
	} {
		if status, text := s.get(path, token); status != http.StatusForbidden || !strings.Contains(text, lacks) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

// A user who may list everything but metrics has a page without them, and does not share that of users who may.
func TestWhatNodesUseIsForThoseWhoMayListIt(t *testing.T) {
	s := tell(t)
	who, token := s.account("unmetered")
	s.everywhere(who, slices.DeleteFunc(rbac.ViewRules(), func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.APIGroups, "metrics.k8s.io")
	})...)
	s.becomes(http.StatusOK, "/lite", token)
	if status, text := s.get("/api/usage", token); status != http.StatusForbidden ||
		!strings.Contains(text, "nodes.metrics.k8s.io") {
		t.Errorf("what nodes use: %d %s", status, text)
	}
	// They lack nothing else: this page has no engine.
	if status, text := s.get("/api/pending", token); status != http.StatusNotImplemented {
		t.Errorf("the engine's answers: %d %s", status, text)
	}
}

// A browser logs in with the form; no script and no other site can use the cookie.
func TestABrowserLogsIn(t *testing.T) {
	s := tell(t)
	who, token := s.account("person")
	s.everywhere(who, rbac.ViewRules()...)
	s.becomes(http.StatusOK, "/lite", token)
	c := s.client()
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	post := func(path, value, site string) *http.Response {
		t.Helper()
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path,
			strings.NewReader(url.Values{"token": {value}}.Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", site)
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp
	}
	for _, bad := range []struct {
		token, site string
		status      int
	}{
		{"", "same-origin", 400},
		{"two words", "same-origin", 400},
		{"made-up", "same-origin", 401},
		{strings.Repeat("x", 4000), "same-origin", 400},
		{token, "cross-site", 403},
	} {
		if resp := post("/login", bad.token, bad.site); resp.StatusCode != bad.status || len(resp.Cookies()) > 0 {
			t.Errorf("token %.10q from %s: %d, cookies %v", bad.token, bad.site, resp.StatusCode, resp.Cookies())
		}
	}
	resp := post("/login", token, "same-origin")
	if resp.StatusCode != http.StatusSeeOther || len(resp.Cookies()) != 1 {
		t.Fatalf("%d, cookies %v", resp.StatusCode, resp.Cookies())
	}
	if k := resp.Cookies()[0]; !k.HttpOnly || !k.Secure || k.SameSite != http.SameSiteStrictMode || k.Path != "/" ||
		k.Domain != "" {
		t.Errorf("cookie %+v", k)
	}
	look := func() int {
		resp, err := c.Get(s.url + "/api/who")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if status := look(); status != http.StatusOK {
		t.Errorf("with the cookie: %d", status)
	}
	post("/logout", "", "same-origin")
	if status := look(); status != http.StatusUnauthorized {
		t.Errorf("after they logged out: %d", status)
	}
}
