package stories

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Large pods of four shapes fill large nodes to the last core. Without nominations the first node that is ready takes
// any pending pods, the others do not fit the nodes launched for them, and more nodes are launched. With nominations
// a node gets the pods that it was launched for.
func TestPodsRunWhereTheirPlaceWasPromised(t *testing.T) {
	c := up(t, "--boot-time", "8s")
	c.kubectl("patch", "nodepool", "general-purpose", "--type=merge", "-p",
		`{"spec":{"disruption":{"consolidateAfter":"Never"}}}`)
	var manifest strings.Builder
	forms := []struct {
		cpu, memory string
		count       int
	}{{"11", "16Gi", 16}, {"11", "62Gi", 14}, {"3", "26Gi", 17}, {"5", "6Gi", 9}}
	pods := 0
	for i, f := range forms {
		fmt.Fprintf(&manifest, `---
apiVersion: apps/v1
kind: Deployment
metadata: {name: form-%d}
spec:
  replicas: %d
  selector: {matchLabels: {form: "%d"}}
  template:
    metadata: {labels: {app: forms, form: "%d"}}
    spec: {containers: [{name: app, image: nginx, resources: {requests: {cpu: %q, memory: %s}}}]}
`, i, f.count, i, i, f.cpu, f.memory)
		pods += f.count
	}
	nominated, done := map[string]string{}, make(chan struct{}) // each pod's last nominated node
	watching, stop := context.WithCancel(context.Background())
	cfg, err := clientcmd.BuildConfigFromFlags("", c.Session.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := client.NewWithWatch(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(done)
		for watching.Err() == nil { // the API server ends watches that it considers too slow
			w, err := watcher.Watch(watching, &corev1.PodList{}, client.InNamespace("default"))
			if err != nil {
				continue
			}
			for e := range w.ResultChan() {
				if p, ok := e.Object.(*corev1.Pod); ok && p.Status.NominatedNodeName != "" {
					nominated[p.Name] = p.Status.NominatedNodeName
				}
			}
		}
	}()
	c.apply(manifest.String())
	c.wantPods(120*time.Second, "default", "forms", pods)

	stop()
	<-done

	var list corev1.PodList
	if err := c.List(context.Background(), &list); err != nil {
		t.Fatal(err)
	}
	bound := map[string]string{}
	for i := range list.Items {
		bound[list.Items[i].Name] = list.Items[i].Spec.NodeName
	}
	said, kept := 0, 0
	for name, node := range nominated {
		said++
		if bound[name] == node {
			kept++
		}
	}
	t.Logf("%d pods on %d machines; %d were nominated, %d of them run there", pods, len(c.claims()), said, kept)
	if said < pods/2 || kept < said/2 {
		t.Errorf("of %d pods %d were nominated, and %d of them run where it was said; want at least half of each", pods,
			said, kept)
	}
	c.eventually(time.Minute, func() error { // the controller is notified of the node's last pods with a delay
		for _, n := range c.nodes() {
			if n.Spec.Unschedulable || len(n.Annotations["nodeless.sh/kept-for-its-pods"]) > 0 {
				return fmt.Errorf("Node %s is cordoned still: %v", n.Name, n.Annotations)
			}
		}
		return nil
	})
}
