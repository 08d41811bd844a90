package stories

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Eight equal machines are used one more than the other, and pods come and go. At first they go where most is free; once as many have ended as
// run, the machines have turns, and kube-scheduler fills those that are used most. Nobody waits for that, a controller that is killed finds the
// turns as they were, and they end with the gate. (That they end with the churn is lab/faults' to show: it lasts ten minutes.)
func TestMachinesAreFilledInTurns(t *testing.T) {
	t.Parallel()
	c := up(t, "--controller=false", "--boot-time", "500ms")
	c.onlyType("m5.2xlarge")
	on := c.replica("on", "--leader-elect=false", "--feature-gates", "FillOrder=true")
	for i := range 8 {
		c.anchor(i)
	}
	c.wantPods(90*time.Second, "default", "anchor", 8)
	w := c.watchTurns()
	w.want(map[int]int{0: 8}) // churn begins with pods that end

	without := c.wave("before", 24, "20m")
	w.want(map[int]int{0: 2, 1: 2, 2: 2, 3: 2})
	c.eventually(30*time.Second, func() error { // machines were ranked while pods ran
		for i, turn := range []int{3, 3, 2, 2, 1, 1, 0, 0} {
			if got := w.now()[c.anchored(i)]; got != turn {
				return fmt.Errorf("the machine of anchor %d has turn %d, want %d", i, got, turn)
			}
		}
		return nil
	})
	with := c.wave("after", 24, "20m")
	t.Logf("of 24 pods %d went to the first two machines without turns, %d with", without, with)
	if without > 2 || with < 22 {
		t.Errorf("of 24 pods %d went to the first two machines without turns, %d with; want at most 2 and at least 22", without, with)
	}
	c.wave("large", 30, "400m") // the first two machines have room for twenty

	before, written := w.now(), w.count()
	on.signal(syscall.SIGKILL)
	c.anchor(8) // who comes next acts on it, and gives turns then
	c.wantPods(60*time.Second, "default", "anchor", 9)
	for name, turn := range before {
		if now := w.now()[name]; now-turn > 1 || turn-now > 1 {
			t.Errorf("%s had turn %d and has %d after the controller was killed", name, turn, now)
		}
	}
	t.Logf("turns were written %d times in three waves, %d times after the controller was killed", written, w.count()-written)
	if written > 60 || w.count()-written > 9 {
		t.Errorf("turns were written %d times in three waves, and %d times when one machine came", written, w.count()-written)
	}

	on.stop()
	c.replica("off", "--leader-elect=false", "--feature-gates", "FillOrder=false")
	w.want(map[int]int{0: 9})
	c.nobodyWaited()
	if n := len(c.everything()); n != 9 {
		t.Errorf("%d machines were launched, want one for each anchor", n)
	}
}

// onlyType has all machines be of one type, and none go for an hour.
func (c *cluster) onlyType(name string) {
	c.t.Helper()
	c.kubectl("patch", "nodepool", "general-purpose", "--type", "json", "-p", `[{"op":"replace","path":"/spec/disruption/consolidateAfter","value":"1h"},
		{"op":"add","path":"/spec/template/spec/requirements/-","value":{"key":"node.kubernetes.io/instance-type","operator":"In","values":["`+name+`"]}}]`)
}

// anchor is a pod that stays, on a machine of its own, and asks for the more the higher its number.
func (c *cluster) anchor(i int) {
	c.apply(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: anchor-%d, labels: {app: anchor}}, spec: {
  containers: [{name: app, image: pause, resources: {requests: {cpu: %dm}}}],
  affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: anchor}}}]}}}}`,
		i, 500*(i+1)))
}

func (c *cluster) anchored(i int) string {
	pod := &corev1.Pod{}
	if err := c.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: fmt.Sprint("anchor-", i)}, pod); err != nil {
		c.t.Fatal(err)
	}
	return pod.Spec.NodeName
}

// wave has so many small pods come at once, waits until all have done their work, and says how many did it where the two largest anchors are.
func (c *cluster) wave(name string, pods int, cpu string) (first int) {
	c.t.Helper()
	c.small(name, pods, cpu)
	var all corev1.PodList
	c.eventually(60*time.Second, func() error {
		if err := c.List(context.Background(), &all, client.InNamespace("default"), client.MatchingLabels{"app": name}); err != nil {
			return err
		}
		first = 0
		for i := range all.Items {
			p := &all.Items[i]
			if p.Status.Phase != corev1.PodSucceeded {
				return fmt.Errorf("pod %s is %s on %q", p.Name, p.Status.Phase, p.Spec.NodeName)
			}
			if n := p.Spec.NodeName; n == c.anchored(6) || n == c.anchored(7) {
				first++
			}
		}
		return nil
	})
	return first
}

func (c *cluster) small(name string, pods int, cpu string) {
	c.t.Helper()
	var work sync.WaitGroup
	for part := range 8 {
		work.Go(func() {
			for i := part; i < pods; i += 8 {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint(name, "-", i), Labels: map[string]string{"app": name}}}
				pod.Annotations = map[string]string{"nodeless.sh/run-for": "1s"}
				pod.Spec.RestartPolicy = corev1.RestartPolicyNever
				pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "pause", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
				if err := c.Create(context.Background(), pod); err != nil {
					c.t.Error(err)
				}
			}
		})
	}
	work.Wait()
}

// nobodyWaited says of which pods, but anchors, kube-scheduler ever found no place.
func (c *cluster) nobodyWaited() {
	c.t.Helper()
	var events corev1.EventList
	if err := c.List(context.Background(), &events, client.InNamespace("default")); err != nil {
		c.t.Fatal(err)
	}
	for i := range events.Items {
		if e := &events.Items[i]; e.Reason == "FailedScheduling" && !strings.HasPrefix(e.InvolvedObject.Name, "anchor") {
			c.t.Errorf("pod %s waited: %s", e.InvolvedObject.Name, e.Message)
		}
	}
}

// turns are those that Nodes have, as a watch tells them.
type turns struct {
	c      *cluster
	mu     sync.Mutex
	nodes  map[string]int
	writes int
}

func (c *cluster) watchTurns() *turns {
	c.t.Helper()
	w := c.watch(&corev1.NodeList{})
	out := &turns{c: c, nodes: map[string]int{}}
	go func() {
		for e := range w.ResultChan() {
			if n, ok := e.Object.(*corev1.Node); ok {
				out.saw(n)
			}
		}
	}()
	return out
}

// watch tells what happens to objects until the test ends.
func (c *cluster) watch(list client.ObjectList, of ...client.ListOption) watch.Interface {
	c.t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", c.Session.Kubeconfig)
	if err != nil {
		c.t.Fatal(err)
	}
	watcher, err := client.NewWithWatch(cfg, client.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	w, err := watcher.Watch(context.Background(), list, of...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(w.Stop)
	return w
}

func (w *turns) saw(n *corev1.Node) {
	turn := 0
	for _, taint := range n.Spec.Taints {
		if strings.HasPrefix(taint.Key, "nodeless.sh/filled-later-") && taint.Effect == corev1.TaintEffectPreferNoSchedule {
			turn++
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.nodes[n.Name] != turn {
		w.writes++
	}
	w.nodes[n.Name] = turn
}

func (w *turns) now() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.nodes)
}

func (w *turns) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writes
}

// want waits until so many machines have each turn.
func (w *turns) want(machines map[int]int) {
	w.c.t.Helper()
	w.c.eventually(45*time.Second, func() error {
		got := map[int]int{}
		for _, turn := range w.now() {
			got[turn]++
		}
		if !maps.Equal(got, machines) {
			return fmt.Errorf("machines by turn %v, want %v", got, machines)
		}
		return nil
	})
}
