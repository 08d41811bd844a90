package kubelet

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	certificates "k8s.io/api/certificates/v1"
	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/nodeless/nodeless/plane/planetest"
)

// ask connects to a node as metrics-server does: at its address, with the cluster's CA and a token.
func (c *cluster) ask(t *testing.T, pod, method, path, token string) (int, string) {
	t.Helper()
	at := ""
	for address, node := range c.nodes {
		if node == c.node(pod) {
			at = address.String()
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(c.plane.CABundle())
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: pool},
		DisableKeepAlives: true,
	}}
	r, err := http.NewRequestWithContext(t.Context(), method, "https://"+at+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func (c *cluster) token(t *testing.T) string {
	t.Helper()
	r, err := c.client.CoreV1().ServiceAccounts(c.namespace).CreateToken(t.Context(), "default",
		&authentication.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Status.Token
}

func TestOnlyWhomTheClusterKnowsAndAllows(t *testing.T) {
	c := newCluster(t)
	c.measure = someStats
	c.serve(t, "web")
	container := "/" + c.namespace + "/web/main"
	paths := map[string]string{
		"/containerLogs" + container:                 "GET",
		"/exec" + container + "?command=id&output=1": "POST", "/attach" + container + "?output=1": "POST",
		"/portForward/" + c.namespace + "/web": "POST", "/stats/summary": "GET", "/metrics/resource": "GET",
		"/pods": "GET", "/runningpods/": "GET", "/healthz": "GET",
		"/containerLogs/" + c.namespace + "/no-such-pod/main": "GET",
	}
	token := c.token(t)
	for path, method := range paths {
		if code, body := c.ask(t, "web", method, path, ""); code != http.StatusUnauthorized {
			t.Errorf("%s without proof: %d %s", path, code, body)
		}
		if code, _ := c.ask(t, "web", method, path, "made.up.token"); code != http.StatusUnauthorized {
			t.Errorf("%s with a false token: %d", path, code)
		}
		if code, body := c.ask(t, "web", method, path, token); code != http.StatusForbidden {
			t.Errorf("%s without rights: %d %s", path, code, body)
		}
	}
	if code, body := c.ask(t, "web", "GET", "/debug/pprof/", token); code != http.StatusNotFound {
		t.Errorf("an unknown path: %d %s", code, body)
	}
}

// RBAC on nodes/stats and nodes/metrics grants access, as for metrics-server and Prometheus, and to nothing more.
func TestRightsAreThoseOfTheNodesSubresources(t *testing.T) {
	c := newCluster(t)
	c.measure = someStats
	c.serve(t, "web")
	c.allow(t, "nodes/stats", "nodes/metrics")
	token := c.token(t)
	if code, body := c.ask(t, "web", "GET", "/stats/summary", token); code != http.StatusOK ||
		!strings.Contains(body, `"usageNanoCores":250000000`) {
		t.Errorf("stats: %d %s", code, body)
	}
	code, body := c.ask(t, "web", "GET", "/metrics/resource", token)
	for _, want := range []string{
		"node_cpu_usage_seconds_total 12.5 1795000000000", "node_memory_working_set_bytes 6.7108864e+07 1795000000000",
		"resource_scrape_error 0",
		`container_cpu_usage_seconds_total{container="main",namespace="ns",pod="web"} 10 1795000000000`,
		`pod_memory_working_set_bytes{namespace="ns",pod="web"} 4.194304e+07 1795000000000`,
		`container_start_time_seconds{container="main",namespace="ns",pod="web"} 1.794e+09`,
	} {
		if code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%d: no %s in\n%s", code, want, body)
		}
	}
	if code, body := c.ask(t, "web", "GET", "/containerLogs/"+c.namespace+"/web/main",
		token); code != http.StatusForbidden {
		t.Errorf("logs with the rights of metrics: %d %s", code, body)
	}
}

func (c *cluster) allow(t *testing.T, resources ...string) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "podkubelet-" + c.namespace}
	if _, err := c.client.RbacV1().ClusterRoles().Create(t.Context(), &rbac.ClusterRole{
		ObjectMeta: meta,
		Rules:      []rbac.PolicyRule{{APIGroups: []string{""}, Resources: resources, Verbs: []string{"get"}}},
	},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbac.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects:   []rbac.Subject{{Kind: "ServiceAccount", Namespace: c.namespace, Name: "default"}},
	},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// Denials are cached for half a minute, so ask only once the API server knows the role.
	planetest.Eventually(t, "the API server knows the new role", func(ctx context.Context) error {
		group, sub, _ := strings.Cut(resources[0], "/")
		review, err := c.client.AuthorizationV1().SubjectAccessReviews().Create(ctx,
			&authorization.SubjectAccessReview{Spec: authorization.SubjectAccessReviewSpec{
				User: "system:serviceaccount:" + c.namespace + ":default",
				ResourceAttributes: &authorization.ResourceAttributes{
					Verb: "get", Version: "v1", Resource: group,
					Subresource: sub,
				},
			}}, metav1.CreateOptions{})
		if err == nil && !review.Status.Allowed {
			err = errors.New(review.Status.Reason)
		}
		return err
	})
	t.Cleanup(func() {
		_ = c.client.RbacV1().ClusterRoles().Delete(context.Background(), meta.Name, metav1.DeleteOptions{})
		_ = c.client.RbacV1().ClusterRoleBindings().Delete(context.Background(), meta.Name, metav1.DeleteOptions{})
	})
}

func someStats(node string) (*stats.Summary, error) {
	at := metav1.NewTime(time.Unix(1795000000, 0))
	n := func(v uint64) *uint64 { return &v }
	return &stats.Summary{
		Node: stats.NodeStats{
			NodeName: node,
			CPU:      &stats.CPUStats{Time: at, UsageNanoCores: n(250000000), UsageCoreNanoSeconds: n(12500000000)},
			Memory:   &stats.MemoryStats{Time: at, WorkingSetBytes: n(64 << 20)},
		},
		Pods: []stats.PodStats{{
			PodRef: stats.PodReference{Name: "web", Namespace: "ns"},
			Memory: &stats.MemoryStats{Time: at, WorkingSetBytes: n(40 << 20)},
			Containers: []stats.ContainerStats{{
				Name: "main", StartTime: metav1.NewTime(time.Unix(1794000000, 0)),
				CPU: &stats.CPUStats{Time: at, UsageCoreNanoSeconds: n(10000000000)}, Memory: &stats.MemoryStats{Time: at},
			}},
		}},
	}, nil
}

// Each node shows only its own pods, though one process serves all nodes.
func TestNodesAreToldApart(t *testing.T) {
	c := newCluster(t)
	c.serve(t, "one", "two")
	c.allow(t, "nodes/proxy", "nodes/pods")
	token := c.token(t)
	for _, pod := range []string{"one", "two"} {
		if code, body := c.ask(t, pod, "GET", "/pods", token); code != http.StatusOK ||
			!strings.Contains(body, `"nodeName":"`+c.node(pod)+`"`) || strings.Count(body, `"nodeName"`) != 1 {
			t.Errorf("pods of %s: %d %s", c.node(pod), code, body)
		}
	}
	if code, body := c.ask(t, "one", "GET", "/healthz", token); code != http.StatusOK || body != "ok" {
		t.Errorf("healthz: %d %s", code, body)
	}
	if code, body := c.ask(t, "one", "GET", "/containerLogs/"+c.namespace+"/three/main",
		token); code != http.StatusNotFound || !strings.Contains(body, "does not exist") {
		t.Errorf("logs of no pod: %d %s", code, body)
	}
	if code, body := c.ask(t, "one", "GET", "/containerLogs/"+c.namespace+"/one/main?tailLines=-1",
		token); code != http.StatusUnprocessableEntity {
		t.Errorf("a bad query: %d %s", code, body)
	}
}

// ownAuthority signs its own certificates: an impostor at a node's address.
type ownAuthority struct{}

func (ownAuthority) Certificate(_ context.Context, node string, at netip.Addr) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{node}, IPAddresses: []net.IP{at.AsSlice()},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

func TestWhoeverElseAnswersForANodeIsNotBelieved(t *testing.T) {
	c := newCluster(t)
	c.certificates = ownAuthority{}
	c.serve(t, "web")
	c.log(t, "web", "main", "1.log", threeLines)
	c.refuses(t, "certificate signed by unknown authority", "logs", "web", "-c", "main")
}

// Where nobody signs, clients are told soon, and do not each make a request.
func TestACertificateThatIsNeverSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube, created := fake.NewClientset(), 0
		kube.PrependReactor("create", "certificatesigningrequests", func(a ktesting.Action) (bool, runtime.Object, error) {
			created++ // the fake does not make names from generateName
			o := a.(ktesting.CreateAction).GetObject().(*certificates.CertificateSigningRequest)
			o.Name = fmt.Sprint(o.GenerateName, created)
			return false, nil, nil
		})
		s, at := NewSigner(kube, false), netip.MustParseAddr("10.202.0.2")
		fails := func(within time.Duration) {
			began := time.Now()
			_, err := s.Certificate(t.Context(), "node", at)
			if err == nil || !strings.Contains(err.Error(), "is not signed") || time.Since(began) > within {
				t.Errorf("after %s: %v", time.Since(began), err)
			}
		}
		fails(20 * time.Second)
		fails(0)
		<-time.After(2 * time.Minute)
		fails(20 * time.Second)
		if created != 2 {
			t.Errorf("%d requests, want 2", created)
		}
	})
}
