package stories

import (
	"cmp"
	"fmt"
	"strings"
)

// whatIf is a change of a pool that has nodes and pods of its own.
type whatIf struct {
	name     string
	replicas int
	machines int // at the beginning, if not one per pod
	// of the pool; by default nothing is consolidated and any number of nodes may be replaced at once
	disruption string
	was        func(pool string) string // the pool at the beginning, if it differs from the others
	pods       string                   // manifests beside the Deployment, in the namespace
	merge      bool                     // nodes are half empty: the pods that filled them are deleted
	change     func(pool string) string // the manifests after the change
	args       []string                 // of plan, for changes that no manifest describes …
	kubectl    []string                 // … and the kubectl command that makes the change
	replaced   bool                     // whether nodes must be removed: plans without removals must not pass for all
	fewer      bool                     // the change itself deletes pods
}

func instead(old, now string) func(string) string {
	return func(pool string) string { return strings.Replace(pool, old, now, 1) }
}

// then applies one change after the other.
func then(changes ...func(string) string) func(string) string {
	return func(pool string) string {
		for _, change := range changes {
			pool = change(pool)
		}
		return pool
	}
}

const (
	ofTemplate = "  template:\n    spec:\n"
	ofClass    = "EC2NodeClass, name: default}"
	onDemand   = "values: [on-demand]"
	larges     = "values: [m5.large]}"
	empties    = "{consolidationPolicy: WhenEmpty, consolidateAfter: 0s, budgets: [{nodes: 100%}]}"
	cheaper    = "{consolidateAfter: 0s, budgets: [{nodes: 100%}]}"
	agent      = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: NAME}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      terminationGracePeriodSeconds: 0
      nodeSelector: {karpenter.sh/nodepool: NAME}
      tolerations: [{operator: Exists}]
      containers: [{name: c, image: pause, resources: {requests: {cpu: CPU}}}]
---
`
)

var (
	tier = instead(ofTemplate, "  template:\n    metadata: {labels: {tier: new}}\n    spec:\n")
	spot = instead(onDemand, "values: [spot]")
	// oneZone pins a pool to one zone, since spot prices differ by zone.
	oneZone = instead(larges, larges+"\n      - {key: topology.kubernetes.io/zone, operator: In, values: [us-west-2a]}")
	static  = func(n int) func(string) string { return instead("spec:\n", fmt.Sprintf("spec:\n  replicas: %d\n", n)) }
)

// class returns an EC2NodeClass with additional lines in its spec.
func class(name, more string) string {
	return fmt.Sprintf(`
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: %s}
spec:
  role: nodeless-node
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: nodeless}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: nodeless}}]
%s---
`, name, more)
}

// dear returns a NodeOverlay that makes m5.large the most expensive type of a pool.
func dear(pool string) string {
	return fmt.Sprintf(`
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: %[1]s}
spec:
  price: "2"
  requirements:
  - {key: karpenter.sh/nodepool, operator: In, values: [%[1]s]}
  - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}
---
`, pool)
}

func daemonSet(name, cpu string) string {
	return strings.NewReplacer("NAME", name, "CPU", cpu).Replace(agent)
}

var whatIfs = []whatIf{
	{name: "p-label", replicas: 2, change: tier, replaced: true},
	{
		name: "p-note", replicas: 1,
		change: instead(ofTemplate, "  template:\n    metadata: {annotations: {team: shop}}\n    spec:\n"), replaced: true,
	},
	{
		name: "p-grace", replicas: 1, change: instead(ofTemplate, ofTemplate+"      terminationGracePeriod: 1h\n"),
		replaced: true,
	},
	{name: "p-expire", replicas: 1, change: instead(ofTemplate, ofTemplate+"      expireAfter: 100h\n"), replaced: true},
	{name: "p-larger", replicas: 2, change: instead("m5.large", "m5.xlarge"), replaced: true},
	{name: "p-cheaper", replicas: 1, change: instead("m5.large", "c5.large"), replaced: true},
	{name: "p-wider", replicas: 1, change: instead("[m5.large]", "[m5.large, c5.large, r5.large]")},
	{name: "p-taint", replicas: 1, change: instead("taints: [", "taints: [{key: more, value: x, effect: NoSchedule}, ")},
	{
		name: "p-one", replicas: 3, disruption: "{consolidateAfter: Never, budgets: [{nodes: '1'}]}", change: tier,
		replaced: true,
	},
	{name: "p-none", replicas: 1, disruption: "{consolidateAfter: Never, budgets: [{nodes: '0'}]}", change: tier},
	{name: "p-weight", replicas: 1, change: instead("spec:\n", "spec:\n  weight: 7\n")},
	{name: "p-limit", replicas: 1, change: instead("spec:\n", "spec:\n  limits: {cpu: 1}\n")},
	{name: "p-budget", replicas: 1, change: instead("100%", "50%")},
	{name: "p-pdb", replicas: 1, change: tier, pods: `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: p-pdb}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: web}}}
`},
	{
		name: "p-gone", replicas: 1, args: []string{"--delete", "nodepool/p-gone"},
		kubectl: []string{"delete", "nodepool", "p-gone", "--wait=false"}, replaced: true,
	},

	{
		name: "m-policy", replicas: 2, merge: true, disruption: empties,
		change: instead("WhenEmpty", "WhenEmptyOrUnderutilized"), replaced: true,
	},
	{name: "m-after", replicas: 2, merge: true, change: instead("Never", "0s"), replaced: true},
	{
		name: "m-budget", replicas: 3, merge: true, disruption: "{consolidateAfter: 0s, budgets: [{nodes: '0'}]}",
		change: instead("'0'", "'1'"), replaced: true,
	},
	{
		name: "m-smaller", replicas: 1, disruption: cheaper, was: instead("[m5.large]", "[m5.4xlarge]"),
		change: instead("[m5.4xlarge]", "[m5.4xlarge, m5.large]"), replaced: true,
	},

	{name: "s-spot", replicas: 1, was: oneZone, change: spot, replaced: true},
	{name: "s-demand", replicas: 1, was: then(oneZone, spot), change: instead("[spot]", "[on-demand]"), replaced: true},
	{
		name: "s-either", replicas: 1, disruption: cheaper, was: oneZone,
		change: instead(onDemand, "values: [spot, on-demand]"), replaced: true,
	},

	{
		name: "o-dear", replicas: 1, disruption: cheaper, was: instead("[m5.large]", "[m5.large, m5.xlarge]"),
		change: func(string) string { return dear("o-dear") }, replaced: true,
	},
	{
		name: "o-gone", replicas: 1, disruption: cheaper, pods: dear("o-gone"),
		was:  instead("[m5.large]", "[m5.large, m5.4xlarge]"),
		args: []string{"--delete", "nodeoverlay/o-gone"}, kubectl: []string{"delete", "nodeoverlay", "o-gone"},
		replaced: true,
	},

	{name: "r-more", machines: 1, was: static(1), change: instead("replicas: 1", "replicas: 3")},
	{
		name: "r-less", machines: 3, was: static(3), args: []string{"--scale", "nodepool/r-less=1"},
		kubectl: []string{"scale", "nodepool/r-less", "--replicas=1"}, replaced: true,
	},
	{name: "r-label", machines: 2, was: static(2), change: tier, replaced: true},

	{
		name: "c-tags", replicas: 1, pods: class("c-tags", ""),
		change: func(string) string { return class("c-tags", "  tags: {team: shop}\n") }, replaced: true,
	},
	{
		name: "c-data", replicas: 2, pods: class("c-data", ""),
		change: func(string) string { return class("c-data", "  detailedMonitoring: true\n") }, replaced: true,
	},
	{
		name: "c-gone", replicas: 1, pods: class("c-gone", ""),
		args: []string{"--delete", "ec2nodeclass/c-gone", "--scale", "deployment/c-gone/web=2"},
		kubectl: []string{
			"delete", "ec2nodeclass", "c-gone", "--wait=false", ";", "scale", "deployment/web",
			"--replicas=2",
		},
	},

	{name: "d-small", replicas: 1, change: func(string) string { return daemonSet("d-small", "100m") }},
	{name: "d-large", replicas: 1, change: func(string) string { return daemonSet("d-large", "1900m") }},
	{
		name: "d-other", replicas: 1, pods: daemonSet("d-other", "100m"),
		change: func(string) string { return daemonSet("d-other", "300m") },
	},
	{
		name: "d-next", replicas: 1, was: instead("[m5.large]", "[m5.large, m5.xlarge]"),
		change: func(string) string { return daemonSet("d-next", "1700m") },
		args:   []string{"--scale", "deployment/d-next/web=2"}, kubectl: []string{"scale", "deployment/web", "--replicas=2"},
	},
	{
		name: "d-gone", replicas: 1, pods: daemonSet("d-gone", "100m"),
		args: []string{"--delete", "daemonset/d-gone/agent"}, kubectl: []string{"delete", "daemonset", "agent"},
	},

	{
		name: "w-more", replicas: 1, args: []string{"--scale", "deployment/w-more/web=3"},
		kubectl: []string{"scale", "deployment/web", "--replicas=3"},
	},
	{name: "w-file", replicas: 1, change: func(string) string { return apart("w-file", "web", "500m", 2, true) }},
	{
		name: "w-none", replicas: 2, disruption: empties, args: []string{"--scale", "deployment/w-none/web=0"},
		kubectl: []string{"scale", "deployment/web", "--replicas=0"}, replaced: true, fewer: true,
	},
	{
		name: "w-gone", replicas: 1, disruption: empties, args: []string{"--delete", "deployment/w-gone/web"},
		kubectl: []string{"delete", "deployment", "web"}, replaced: true, fewer: true,
	},
}

// pool returns the NodePool before the change.
func (x *whatIf) pool() string {
	disruption := cmp.Or(x.disruption, "{consolidateAfter: Never, budgets: [{nodes: 100%}]}")
	out := strings.TrimSuffix(strings.TrimPrefix(pool(x.name, disruption), "\n"), "---\n")
	if strings.HasPrefix(x.name, "c-") {
		out = strings.Replace(out, ofClass, "EC2NodeClass, name: "+x.name+"}", 1)
	}
	if x.was != nil {
		out = x.was(out)
	}
	return out
}

// web returns the pods whose nodes the test compares, each on a node of its own. Of the pods to be merged, one fits
// beside a filler, which takes half of a node, and two on an empty node.
func (x *whatIf) web() string {
	if x.merge {
		return apart(x.name, "web", "900m", x.replicas, false)
	}
	return apart(x.name, "web", "500m", x.replicas, true)
}

// filler returns the pods that keep the pods to be merged on separate nodes.
func (x *whatIf) filler() string { return apart(x.name, "filler", "1", x.replicas, true) }

func (x *whatIf) nodes() int { return cmp.Or(x.machines, x.replicas) }
