package oracle

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/translate"
)

// judges are the plugins that define the truth, in the scheduler's order.
var judges = []string{
	names.NodeUnschedulable, names.NodeName, names.TaintToleration, names.NodeAffinity, names.NodePorts,
	names.NodeResourcesFit, names.VolumeRestrictions, names.NodeVolumeLimits, names.VolumeBinding, names.VolumeZone,
	names.PodTopologySpread, names.InterPodAffinity, names.DynamicResources,
}

// verdict is one plugin's verdict on the pod and a node.
type verdict int

const (
	indifferent verdict = iota // the plugin has no verdict on this pod
	accepts
	rejects
)

// judgement holds the verdicts of all plugins, indexed as in judges.
type judgement []verdict

// allowed reports whether no plugin rejects.
func (j judgement) allowed() bool { return j.rejectedBy("") == "" }

// rejectedBy returns the first plugin that rejects, considering only the wanted one if it is not "".
func (j judgement) rejectedBy(want string) string {
	for i, v := range j {
		if v == rejects && (want == "" || want == judges[i]) {
			return judges[i]
		}
	}
	return ""
}

func (j judgement) String() string {
	out := "allowed"
	for i, v := range j {
		if v == rejects {
			if out == "allowed" {
				out = "rejected by"
			}
			out += " " + judges[i]
		}
	}
	return out
}

// truth runs the plugins. It must not be used concurrently.
type truth struct {
	ctx      context.Context
	snapshot *schedulercache.Snapshot
	whole    framework.Framework // all plugins together, to check that they are called as the scheduler calls them
	plugins  []fwk.Plugin        // indexed as in judges
	stores   stores
	devices  *draManager
	options  cluster.Options // of the state from which the claim is derived
	literal  bool            // the pod unchanged: see asMeant
}

// stores are the informers' caches; the informers themselves never run.
type stores struct {
	namespaces, claims, volumes, classes, csiNodes, csiDrivers, capacities, services cache.Indexer
}

// lister is the snapshot of the current case.
type lister struct{ t *truth }

func (l lister) NodeInfos() fwk.NodeInfoLister           { return l.t.snapshot.NodeInfos() }
func (l lister) StorageInfos() fwk.StorageInfoLister     { return l.t.snapshot.StorageInfos() }
func (l lister) PodGroupStates() fwk.PodGroupStateLister { return l.t.snapshot.PodGroupStates() }

func newTruth(tb testing.TB) *truth { return newTruthWith(tb, unconfigured) }

// unconfigured is the configuration of a kube-scheduler without any.
const unconfigured = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration"

// newTruthWith returns the truth of a kube-scheduler with a configuration.
func newTruthWith(tb testing.TB, document string) *truth {
	tb.Helper()
	metrics.InitMetrics()
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	tb.Cleanup(cancel)
	t := &truth{ctx: ctx, snapshot: schedulercache.NewEmptySnapshot(), devices: &draManager{}}
	objects := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	core, storage := objects.Core().V1(), objects.Storage().V1()
	t.stores = stores{
		namespaces: core.Namespaces().Informer().GetIndexer(),
		claims:     core.PersistentVolumeClaims().Informer().GetIndexer(),
		volumes:    core.PersistentVolumes().Informer().GetIndexer(),
		classes:    storage.StorageClasses().Informer().GetIndexer(),
		csiNodes:   storage.CSINodes().Informer().GetIndexer(),
		csiDrivers: storage.CSIDrivers().Informer().GetIndexer(),
		capacities: storage.CSIStorageCapacities().Informer().GetIndexer(),
		services:   core.Services().Informer().GetIndexer(),
	}
	profile := filterProfile(tb, document)
	var err error
	if t.options.Scheduler, err = translate.ParseSchedulerConfig([]byte(document)); err != nil {
		tb.Fatal(err)
	}
	t.whole, err = runtime.NewFramework(ctx, plugins.NewInTreeRegistry(), &profile,
		runtime.WithSnapshotSharedLister(lister{t}), runtime.WithInformerFactory(objects), runtime.WithLogger(klog.Logger{}),
		runtime.WithSharedDRAManager(t.devices),
		runtime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(storage.CSINodes().Lister())))
	if err != nil {
		tb.Fatal(err)
	}
	registry := plugins.NewInTreeRegistry()
	for _, name := range judges {
		var args apiruntime.Object
		for _, c := range profile.PluginConfig {
			if c.Name == name {
				args = c.Args
			}
		}
		p, err := registry[name](ctx, args, t.whole)
		if err != nil {
			tb.Fatal(err)
		}
		t.plugins = append(t.plugins, p)
	}
	return t
}

// filterProfile is the scheduler's profile by a configuration with only the judges.
func filterProfile(tb testing.TB, document string) schedulerconfig.KubeSchedulerProfile {
	tb.Helper()
	config := &schedulerconfig.KubeSchedulerConfiguration{}
	if err := apiruntime.DecodeInto(scheme.Codecs.UniversalDecoder(), []byte(document), config); err != nil {
		tb.Fatal(err)
	}
	profile := config.Profiles[0]
	profile.Plugins = &schedulerconfig.Plugins{}
	enable := func(set *schedulerconfig.PluginSet, plugins ...string) {
		for _, name := range plugins {
			set.Enabled = append(set.Enabled, schedulerconfig.Plugin{Name: name})
		}
	}
	enable(&profile.Plugins.QueueSort, names.PrioritySort)
	enable(&profile.Plugins.Bind, names.DefaultBinder)
	enable(&profile.Plugins.PreFilter, judges[3:]...)
	enable(&profile.Plugins.Filter, judges...)
	return profile
}

// load makes the case the cluster that the plugins see.
func (t *truth) load(c *Case) {
	known := map[string]bool{}
	for _, n := range c.Nodes {
		known[n.Name] = true
	}
	var pods []*corev1.Pod
	for _, p := range c.Pods {
		// Like the scheduler's informer and cache: without ended pods and those of unknown nodes.
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if known[p.Spec.NodeName] && !ended {
			pods = append(pods, p)
		}
	}
	t.snapshot = schedulercache.NewSnapshot(pods, c.Nodes)
	replace(t.stores.namespaces, c.Namespaces)
	replace(t.stores.claims, c.Claims)
	replace(t.stores.volumes, c.Volumes)
	replace(t.stores.classes, c.Classes)
	replace(t.stores.csiNodes, c.CSINodes)
	replace(t.stores.csiDrivers, c.CSIDrivers)
	replace(t.stores.capacities, c.Capacities)
	replace(t.stores.services, c.Services)
	t.devices.of = c
}

func replace[T any](store cache.Indexer, objects []T) {
	all := make([]any, len(objects))
	for i, o := range objects {
		all[i] = o
	}
	if err := store.Replace(all, ""); err != nil {
		panic(err) // the key functions of API objects do not fail
	}
}

// judge returns the plugins' verdicts on the case's pod for each node, by index.
func (t *truth) judge(c *Case) []judgement {
	t.load(c)
	pod := c.Pod
	if !t.literal {
		pod = asMeant(pod, c.Namespaces)
	}
	nodes, _ := t.snapshot.List()
	state := framework.NewCycleState()
	state.SetRecordPluginMetrics(false)
	out := make([]judgement, len(c.Nodes))
	for i := range out {
		out[i] = make(judgement, len(judges))
	}
	for k, p := range t.plugins {
		only, before := map[string]bool(nil), accepts
		if pre, ok := p.(fwk.PreFilterPlugin); ok {
			result, status := pre.PreFilter(t.ctx, state, pod, nodes)
			switch {
			case status.IsSkip():
				continue
			case !status.IsSuccess():
				before = rejects
			case !result.AllNodes():
				only = map[string]bool{}
				for name := range result.NodeNames {
					only[name] = true
				}
			}
		}
		filter := p.(fwk.FilterPlugin)
		for i, n := range c.Nodes {
			out[i][k] = before
			if before == rejects {
				continue
			}
			if only != nil && !only[n.Name] {
				out[i][k] = rejects
				continue
			}
			info, err := t.snapshot.Get(n.Name)
			if err != nil {
				panic(err)
			}
			if status := filter.Filter(t.ctx, state, pod, info); !status.IsSuccess() {
				out[i][k] = rejects
			}
		}
	}
	return out
}

// whether returns the verdict of the whole framework on the case that was loaded last: the same as judge, but without
// the plugins' names.
func (t *truth) whether(c *Case) []bool {
	state := framework.NewCycleState()
	out := make([]bool, len(c.Nodes))
	pod := asMeant(c.Pod, c.Namespaces)
	result, status, _ := t.whole.RunPreFilterPlugins(t.ctx, state, pod)
	if !status.IsSuccess() {
		return out
	}
	for i, n := range c.Nodes {
		if !result.AllNodes() && !result.NodeNames.Has(n.Name) {
			continue
		}
		info, err := t.snapshot.Get(n.Name)
		if err != nil {
			panic(fmt.Sprintf("node %s: %v", n.Name, err))
		}
		out[i] = t.whole.RunFilterPlugins(t.ctx, state, pod, info).IsSuccess()
	}
	return out
}
