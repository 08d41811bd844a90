package fromcluster

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// server is an API server with some kinds, by the paths of their lists.
type server struct {
	lists     map[string][]string // objects as JSON
	forbidden []string            // resources
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	p := r.URL.Path
	for _, name := range s.forbidden {
		if path.Base(p) == name {
			status(w, http.StatusForbidden, metav1.StatusReasonForbidden, `User "jane" cannot list resource "`+name+`"`)
			return
		}
	}
	if objects, ok := s.lists[p]; ok {
		s.list(w, r, objects)
		return
	}
	found := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
	for list := range s.lists {
		if path.Dir(list) == p {
			found.APIResources = append(found.APIResources, metav1.APIResource{Name: path.Base(list), Kind: "x"})
		}
	}
	if found.APIResources == nil {
		status(w, http.StatusNotFound, metav1.StatusReasonNotFound, "not found")
		return
	}
	_ = json.NewEncoder(w).Encode(found)
}

// list returns one object per page.
func (s *server) list(w http.ResponseWriter, r *http.Request, objects []string) {
	name, selected := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	var items []string
	for _, o := range objects {
		if !selected || strings.Contains(o, `"name":"`+name+`"`) {
			items = append(items, o)
		}
	}
	at := len(r.URL.Query().Get("continue"))
	next, one := "", ""
	if at < len(items) {
		one = items[at]
	}
	if at+1 < len(items) {
		next = strings.Repeat("x", at+1)
	}
	_, _ = io.WriteString(w, `{"kind":"List","apiVersion":"v1","metadata":{"continue":"`+next+`"},"items":[`+one+`]}`)
}

func status(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: reason, Message: message,
		Code: int32(code),
	})
}

func named(apiVersion, kind, name, more string) string {
	return `{"apiVersion":"` + apiVersion + `","kind":"` + kind + `","metadata":{"name":"` + name +
		`","namespace":"x","uid":"1","resourceVersion":"2","managedFields":[{"manager":"kubectl"}]}` + more + `}`
}

func newServer() *server {
	return &server{lists: map[string][]string{
		"/apis/karpenter.sh/v1alpha5/provisioners": {
			named("karpenter.sh/v1alpha5", "Provisioner", "a", ""), named("karpenter.sh/v1alpha5", "Provisioner", "b", ""),
		},
		"/apis/karpenter.sh/v1beta1/nodepools":           {named("karpenter.sh/v1beta1", "NodePool", "converted", "")},
		"/apis/karpenter.sh/v1/nodepools":                {named("karpenter.sh/v1", "NodePool", "converted", "")},
		"/apis/karpenter.k8s.aws/v1beta1/ec2nodeclasses": {named("karpenter.k8s.aws/v1beta1", "EC2NodeClass", "old", "")},
		"/api/v1/configmaps": {
			named("v1", "ConfigMap", "karpenter-global-settings", ""), named("v1", "ConfigMap", "secret-plans", ""),
		},
		"/apis/apps/v1/deployments": {
			named("apps/v1", "Deployment", "ca",
				`,"spec":{"template":{"metadata":{"labels":{"k8s-app":"cluster-autoscaler"}},"spec":{"containers":[{"name":"c"}]}}}`),
			named("apps/v1", "Deployment", "pinned",
				`,"spec":{"template":{"spec":{"nodeSelector":{"karpenter.sh/provisioner-name":"a"}}}}`),
			named("apps/v1", "Deployment", "web", `,"spec":{"template":{"spec":{}}}`),
		},
		"/apis/apps/v1/statefulsets": nil,
		"/apis/apps/v1/daemonsets":   nil,
		"/apis/batch/v1/cronjobs":    nil,
	}}
}

// Objects that need no migration, and kinds that the cluster does not have, are not read.
func TestWhatIsReadOfACluster(t *testing.T) {
	at := httptest.NewServer(newServer())
	defer at.Close()
	in, err := Read(t.Context(), &rest.Config{Host: at.URL})
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for text := range strings.SplitSeq(string(b), "---\n") {
		var o struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		got = append(got, o.Kind+" "+o.Metadata.Name)
	}
	want := "Provisioner a, Provisioner b, EC2NodeClass old, ConfigMap karpenter-global-settings, Deployment ca, " +
		"Deployment pinned"
	if strings.Join(got, ", ") != want {
		t.Errorf("read %q\nwant %q", got, want)
	}
}

func TestWhatMayNotBeReadIsNamed(t *testing.T) {
	s := newServer()
	s.forbidden = []string{"provisioners", "configmaps", "daemonsets"}
	at := httptest.NewServer(s)
	defer at.Close()
	_, err := Read(t.Context(), &rest.Config{Host: at.URL})
	var forbidden *ForbiddenError
	want := "not allowed to list provisioners.karpenter.sh, configmaps, daemonsets.apps in the whole cluster"
	if !errors.As(err, &forbidden) || !strings.Contains(err.Error(), want) ||
		!strings.Contains(err.Error(), "kubectl create clusterrole") {
		t.Errorf("%v\nwant %s, and what to do", err, want)
	}
	at.Close()
	if _, err := Read(t.Context(), &rest.Config{Host: at.URL}); err == nil {
		t.Error("a cluster that is not there has something")
	}
}
