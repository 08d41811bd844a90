package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/lab/apisim"
)

// elsewhen returns the kubeconfig of a cluster whose clock is ahead of ours by some time, with a node and a pod that
// are ten minutes old.
func elsewhen(t *testing.T, ahead time.Duration) string {
	t.Helper()
	api := apisim.New()
	now := func() time.Time { return time.Now().Add(ahead) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Scheme, r.URL.Host = "http", "apisim"
		resp, err := api.RoundTrip(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer resp.Body.Close()
		for key, values := range resp.Header {
			w.Header()[key] = values
		}
		w.Header().Set("Date", now().UTC().Format(http.TimeFormat))
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	}))
	t.Cleanup(server.CloseClientConnections)
	c, err := client.New(api.Config("test", nil), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	born := metav1.NewTime(now().Add(-10*time.Minute - 20*time.Second))
	room := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("2"),
		corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("29"),
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, CreationTimestamp: born} }
	node := &corev1.Node{
		ObjectMeta: meta("n1"),
		Status: corev1.NodeStatus{Allocatable: room, Capacity: room, Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: born, LastHeartbeatTime: born},
		}},
	}
	if err := c.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: %q}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a}]\n", server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// A node that was created ten minutes ago is ten minutes old, however wrong the local clock is.
func TestAgesGoByTheClustersClock(t *testing.T) {
	for _, ahead := range []time.Duration{0, 5 * time.Hour, -7 * time.Hour} {
		kubeconfig := elsewhen(t, ahead)
		root, out := newRoot(), &bytes.Buffer{}
		root.SetArgs([]string{"why", "node/n1", "--kubeconfig", kubeconfig})
		root.SetOut(out)
		root.SetErr(out)
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if text := out.String(); !strings.Contains(text, "Ready for 10m") {
			t.Errorf("the cluster's clock is ahead by %s: why says\n%s", ahead, text)
		}
	}
}
