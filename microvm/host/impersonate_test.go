package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

const referring = `
metadata: {namespace: shop, name: one, uid: uid-one}
spec:
  nodeName: node-one
  serviceAccountName: worker
  imagePullSecrets: [{name: registry}]
  volumes:
  - {name: a, secret: {secretName: files}}
  - {name: b, configMap: {name: settings}}
  - {name: c, projected: {sources: [{secret: {name: part}}, {configMap: {name: kube-root-ca.crt}}, {serviceAccountToken: {path: token}}]}}
  initContainers:
  - {name: i, envFrom: [{secretRef: {name: first}}, {configMapRef: {name: first}}]}
  containers:
  - {name: c, env: [{name: P, valueFrom: {secretKeyRef: {name: password, key: k}}}, {name: Q, valueFrom: {configMapKeyRef: {name: settings, key: k}}}]}
`

func podFrom(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	if err := yaml.Unmarshal([]byte(text), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestAllThatAPodRefersToIsKnown(t *testing.T) {
	var got []string
	for _, r := range referencesOf(podFrom(t, referring)) {
		got = append(got, r.kind+" "+r.namespace+"/"+r.name)
	}
	slices.Sort(got)
	want := []string{
		"configmaps shop/first", "configmaps shop/kube-root-ca.crt", "configmaps shop/settings",
		"secrets shop/files", "secrets shop/first",
		"secrets shop/part", "secrets shop/password", "secrets shop/registry",
	}
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// asked is an API server that has every object and records who requests which.
type asked struct {
	mu  sync.Mutex
	all []string
}

func (a *asked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, groups := r.Header.Get("Impersonate-User"), r.Header.Values("Impersonate-Group")
	a.mu.Lock()
	a.all = append(a.all, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+r.URL.Query().Get("fieldSelector")+" as "+user+
		" "+strings.Join(groups, ",")))
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Query().Has("watch"):
		w.WriteHeader(http.StatusInternalServerError)
	case strings.HasSuffix(r.URL.Path, "/token"):
		var request authenticationv1.TokenRequest
		_ = json.NewDecoder(r.Body).Decode(&request) // an empty request is visible in the recorded ones
		_ = json.NewEncoder(w).Encode(request)
	case strings.HasSuffix(r.URL.Path, "/secrets"):
		_ = json.NewEncoder(w).Encode(corev1.SecretList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "SecretList"},
			ListMeta: metav1.ListMeta{ResourceVersion: "1"},
		})
	default:
		_ = json.NewEncoder(w).Encode(corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{
			APIVersion: "v1",
			Kind:       "ConfigMapList",
		}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}})
	}
}

func (a *asked) saw(request string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Contains(a.all, request)
}

// Each object is requested as the Node of a pod that refers to it, a token as the Node of its own pod, and an object to
// which no pod refers without impersonation.
func TestObjectsAreReadAsThePodsNodes(t *testing.T) {
	seen := &asked{}
	server := httptest.NewServer(seen)
	defer server.Close()
	o, err := newObjects(nil, &rest.Config{Host: server.URL + "/behind/a/proxy"})
	if err != nil {
		t.Fatal(err)
	}
	one := podFrom(t, referring)
	two := podFrom(t, strings.ReplaceAll(referring, "one", "two"))
	two.Spec.Volumes[0].Secret.SecretName = "others"
	o.register(one)
	o.register(two)
	defer o.forget(one.Namespace, one.Name, one.UID)
	for _, pod := range []*corev1.Pod{one, two} {
		if _, err := o.Token(t.Context(), pod, "", time.Hour); err != nil {
			t.Error(err)
		}
	}
	const api, token = "/behind/a/proxy/api/v1/namespaces/shop/",
		"POST /behind/a/proxy/api/v1/namespaces/shop/serviceaccounts/worker/token  as "
	for _, want := range []string{
		token + "system:node:node-one system:nodes", token + "system:node:node-two system:nodes",
		"GET " + api + "secrets metadata.name=files as system:node:node-one system:nodes",
		"GET " + api + "secrets metadata.name=others as system:node:node-two system:nodes",
		"GET " + api + "configmaps metadata.name=kube-root-ca.crt as system:node:node-two system:nodes",
	} {
		for deadline := time.Now().Add(20 * time.Second); !seen.saw(want); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("not asked for: %s, but %q", want, seen.all)
			}
		}
	}
	o.forget(two.Namespace, two.Name, two.UID)
	want := map[string]string{"files": " as system:node:node-one system:nodes", "others": " as"}
	for i := range 8 { // each has a Secret of its own
		name := fmt.Sprint("pod-", i)
		pod := podFrom(t, strings.ReplaceAll(referring, "one", name))
		pod.Spec.Volumes[0].Secret.SecretName = name
		o.refs.add(pod)
		want[name] = " as system:node:node-" + name + " system:nodes"
	}
	kube, err := asNodes(&rest.Config{Host: server.URL}, o.refs)
	if err != nil {
		t.Fatal(err)
	}
	for name, as := range want {
		_, _ = kube.CoreV1().Secrets("shop").Get(t.Context(), name, metav1.GetOptions{})
		if want := "GET /api/v1/namespaces/shop/secrets/" + name + " " + as; !seen.saw(want) {
			t.Errorf("not asked for: %s", want)
		}
	}
}
