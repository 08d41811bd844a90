// Package watcher fills a view.Model from a cluster: it watches Nodes, pods, NodeClaims, NodePools and events, keeps
// only what is shown of each object, and says in the model's notes what it may not read or has lost contact with.
package watcher

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/view"
)

// Options are what a Feed needs.
type Options struct {
	REST     *rest.Config
	Context  string // name of the kubeconfig's context, for messages
	Selector string // label selector of Nodes and NodeClaims; "" = all
	Unpriced bool   // do not look up prices
	// Decisions makes the Feed watch the log of decisions, too.
	Decisions bool
	// Addresses makes the Feed count how many addresses each node has for pods.
	Addresses bool
	Model     *view.Model
}

// Feed watches a cluster for a Model.
type Feed struct {
	o       Options
	kube    kubernetes.Interface
	karp    rest.Interface
	sources []source
	rooms   rooms
	filled  []toolscache.InformerSynced
	cancel  context.CancelFunc
}

// Start finds out what the cluster serves and what the user may see, and starts watching. It fails if the cluster
// does not answer or Nodes may not be seen; anything else that may not be seen becomes a note of the model. The
// watches end with ctx or with Stop.
func Start(ctx context.Context, o Options) (*Feed, error) {
	if _, err := labels.Parse(o.Selector); err != nil {
		return nil, fmt.Errorf("node selector %q: %w", o.Selector, err)
	}
	f := &Feed{o: o, rooms: rooms{nodes: map[string]*ranged{}}}
	if err := f.connect(); err != nil {
		return nil, err
	}
	if err := f.reach(ctx); err != nil {
		return nil, err
	}
	for _, s := range f.all() {
		ok, err := f.mayWatch(ctx, s)
		if err != nil {
			return nil, err
		}
		if ok {
			f.sources = append(f.sources, s)
		}
	}
	if o.Decisions {
		if err := f.decisions(ctx); err != nil {
			o.Model.NoDecisions(err.Error()) // everything else can be shown
		}
	}
	ctx, f.cancel = context.WithCancel(ctx)
	for _, s := range f.sources {
		if err := f.watch(ctx, s); err != nil {
			f.cancel()
			return nil, err
		}
	}
	return f, nil
}

// Stop ends the watches.
func (f *Feed) Stop() { f.cancel() }

// Wait waits until the model holds everything that existed at the start. Its error names what is missing.
func (f *Feed) Wait(ctx context.Context) error {
	if toolscache.WaitForCacheSync(ctx.Done(), f.filled...) {
		return nil
	}
	var missing []string
	for i, there := range f.filled {
		if !there() {
			missing = append(missing, f.sources[i].resource)
		}
	}
	why := ""
	if notes := f.o.Model.Totals().Notes; len(notes) > 0 {
		why = ": " + strings.Join(notes, "; ")
	}
	return fmt.Errorf("context %q: the first list of %s did not come%s: %w", f.o.Context, strings.Join(missing, ", "),
		why, ctx.Err())
}

func (f *Feed) connect() error {
	cfg := rest.CopyConfig(f.o.REST)
	cfg.QPS, cfg.Burst = 50, 100
	binary := rest.CopyConfig(cfg)
	binary.ContentType = runtime.ContentTypeProtobuf
	binary.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	var err error
	if f.kube, err = kubernetes.NewForConfig(binary); err != nil {
		return fmt.Errorf("context %q: %w", f.o.Context, err)
	}
	group := karpGroup
	cfg.GroupVersion, cfg.APIPath, cfg.NegotiatedSerializer = &group, "/apis", scheme.Codecs.WithoutConversion()
	if f.karp, err = rest.RESTClientFor(cfg); err != nil {
		return fmt.Errorf("context %q: %w", f.o.Context, err)
	}
	return nil
}

// source is a kind of object to watch.
type source struct {
	group, resource string
	namespace, name string // of the only object to watch; "" = all
	need            string // what is not shown without it; "" = nothing is shown without it
	client          toolscache.Getter
	narrow          func(*metav1.ListOptions)
	object          runtime.Object
	keep            func(object any) (facts any, meta metav1.Object)
	seen            func(old, now any)
	filled          func() // called, maybe often, when all that existed at the start has been seen; nil = nothing to do
}

func (f *Feed) all() []source {
	core := f.kube.CoreV1().RESTClient()
	selected := func(o *metav1.ListOptions) { o.LabelSelector = f.o.Selector }
	// Karpenter and Nodeless report events under the same name. Other components' events about pods are many, and say
	// no more than the pods' conditions.
	ours := func(o *metav1.ListOptions) { o.FieldSelector = "source=karpenter" }
	out := []source{
		{resource: "nodes", client: core, narrow: selected, object: &corev1.Node{}, keep: keep(f.node), seen: f.nodeSeen},
		{
			resource: "pods", need: "requests of pods, and pending pods", client: core, object: &corev1.Pod{},
			keep: keep(f.pod), seen: f.podSeen,
		},
		{
			resource: "events", need: "reasons that only events give", client: core, narrow: ours, object: &corev1.Event{},
			keep: keep(event), seen: f.eventSeen,
		},
	}
	if f.o.Addresses {
		out = append(out, source{
			group: appsv1.GroupName, resource: "daemonsets", namespace: metav1.NamespaceSystem, name: catalog.CNIContainer,
			need: "how many addresses nodes have for pods", client: f.kube.AppsV1().RESTClient(),
			narrow: func(o *metav1.ListOptions) {
				o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, catalog.CNIContainer).String()
			},
			object: &appsv1.DaemonSet{}, keep: keep(translate.CNI), seen: f.cniSeen, filled: f.cniFilled,
		})
	}
	return append(out,
		source{
			group: karpGroup.Group, resource: "nodeclaims", need: "nodes being launched, and why nodes are removed",
			client: f.karp, narrow: selected, object: &karpv1.NodeClaim{}, keep: keep(f.claim), seen: f.claimSeen,
		},
		source{
			group: karpGroup.Group, resource: "nodepools", need: "limits and budgets", client: f.karp,
			object: &karpv1.NodePool{}, keep: keep(f.pool), seen: f.poolSeen,
		},
	)
}

// keep turns a function that reads one kind's facts into a source.keep.
func keep[O metav1.Object, F any](read func(O) *F) func(any) (any, metav1.Object) {
	return func(object any) (any, metav1.Object) {
		o, ok := object.(O)
		if !ok {
			return nil, nil
		}
		return read(o), o
	}
}

// kept is what a watch's store keeps of an object: its key, its version and the facts.
type kept struct {
	namespace, name, version string
	facts                    any
}

// GetObjectMeta returns the key and version for the store.
func (k *kept) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: k.namespace, Name: k.name, ResourceVersion: k.version}
}

// patience is how long finding out what the cluster serves and what the user may see may take.
const patience = 15 * time.Second
