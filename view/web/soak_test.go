package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/lab/apisim"
	"github.com/nodeless/nodeless/lab/churn"
	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/watcher"
)

// census is what a cluster has according to its API server.
type census struct {
	Running int            `json:"running"`
	Waiting []string       `json:"waiting"` // names of pods without a node
	Nodes   map[string]int `json:"nodes"`   // the number of pods on each node that have not ended
}

// Ten thousand times an object is created, changed or deleted while a browser looks and watches break. It ends up with
// the API server's state: in its sums, for each node, and in the pending pods. page/test/soak.mjs is that browser.
func TestThePageIsTheClusterAfterTenThousandChanges(t *testing.T) {
	needBrowser(t)
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
	defer cancel()
	server := apisim.New()
	door := churn.Through(server)
	cluster, err := churn.New(server)
	if err != nil {
		t.Fatal(err)
	}
	change := func(n int) error {
		for ; n > 0; n-- {
			if err := cluster.Change(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	if err := change(100); err != nil { // because the page of an empty cluster requires the engine
		t.Fatal(err)
	}
	m, err := view.New([]string{"cpu"})
	if err != nil {
		t.Fatal(err)
	}
	feed, err := watcher.Start(ctx, watcher.Options{REST: server.Config("view", door), Context: "soak", Model: m})
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Stop()
	l, err := Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- New(Options{Context: "soak", Token: storyToken, Model: m, Decisions: &diary{}}).Run(ctx, l)
	}()
	changes := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		err := change(1600)
		door.Cut()
		if err := errors.Join(err, change(400)); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		pods, nodes, err := cluster.Read(ctx)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(count(pods.Items, nodes.Items))
	}))
	defer changes.Close()
	script := exec.CommandContext(ctx, "node", "test/soak.mjs", Link(l.Addr().String(), storyToken), changes.URL)
	script.Dir = filepath.Join("page")
	if said, err := script.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
	if door.Lists() < 5 {
		t.Errorf("there were %d lists: watches did not break as they should", door.Lists())
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func count(pods []corev1.Pod, nodes []corev1.Node) census {
	out := census{Waiting: []string{}, Nodes: map[string]int{}}
	for i := range nodes {
		out.Nodes[nodes[i].Name] = 0
	}
	for i := range pods {
		p := &pods[i]
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		if p.Status.Phase == corev1.PodRunning {
			out.Running++
		}
		if p.Spec.NodeName == "" {
			out.Waiting = append(out.Waiting, p.Name)
		} else if _, there := out.Nodes[p.Spec.NodeName]; there {
			out.Nodes[p.Spec.NodeName]++
		}
	}
	slices.Sort(out.Waiting)
	return out
}
