package stories

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Constraints between pods, each story with its own namespace and pool, all at once in one cluster. kube-scheduler
// binds the pods as planned: every node that was ever launched is in use.
func TestPodsThatLookAtOthers(t *testing.T) {
	c := up(t, "--boot-time", "1s")
	t.Run("together", func(t *testing.T) {
		for name, story := range map[string]func(*testing.T){
			"spread over three zones": c.zonesStory, "five replicas, five machines": c.apartStory,
			"web near its cache":              c.nearStory,
			"a volume where its class allows": c.diskStory, "one host port": c.portsStory, "all of it": c.mixedStory,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				story(t)
			})
		}
	})
	c.eventually(time.Minute, c.everyPodHasItsMachine)
	if machines, ever := len(c.claims()), c.everLaunched(); ever != machines {
		t.Errorf("%d machines were launched for %d that are needed", ever, machines)
	}
}

// everyPodHasItsMachine reports nodes on which no pod runs, and pods that do not run.
func (c *cluster) everyPodHasItsMachine() error {
	var pods corev1.PodList
	if err := c.List(context.Background(), &pods); err != nil {
		return err
	}
	used := map[string]bool{}
	for _, p := range pods.Items {
		used[p.Spec.NodeName] = true
		if p.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("pod %s/%s is %s", p.Namespace, p.Name, p.Status.Phase)
		}
	}
	for _, claim := range c.claims() {
		if !used[claim.Status.NodeName] {
			return fmt.Errorf("no pod runs on %s of pool %s", claim.Status.NodeName, claim.Labels[karpv1.NodePoolLabelKey])
		}
	}
	return nil
}

// everLaunched is how many instances the region ever launched, including terminated ones.
func (c *cluster) everLaunched() int {
	c.t.Helper()
	out, err := c.ec2.DescribeInstances(context.Background(), &ec2.DescribeInstancesInput{})
	if err != nil {
		c.t.Fatal(err)
	}
	n := 0
	for _, r := range out.Reservations {
		n += len(r.Instances)
	}
	return n
}

// ofTheirOwn returns the cluster with a namespace and a pool for its pods alone, both of the given name.
func (c *cluster) ofTheirOwn(t testing.TB, name string) *cluster {
	c = c.in(t, name)
	c.applyPool(name)
	return c
}

// applyPool creates the pool for pods that select a team of this name.
func (c *cluster) applyPool(name string) {
	c.t.Helper()
	c.apply(strings.ReplaceAll(`
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: NAME}
spec:
  template:
    metadata: {labels: {team: NAME}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
      - {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ["4"]}
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: topology.kubernetes.io/zone, operator: In, values: [us-west-2a, us-west-2b, us-west-2c]}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1s}
`, "NAME", name))
}

// deployment returns a Deployment for its own pool, in the namespace of the same name; constraints are lines of the
// pod's spec, and ports those of its container.
func deployment(namespace, app string, replicas int, cpu, constraints, ports string) string {
	return fmt.Sprintf(`---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  replicas: %[3]d
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}}
    spec:
      nodeSelector: {team: %[1]s}
      %[5]s
      containers: [{name: app, image: "nginx:1.27", ports: [%[6]s], resources: {requests: {cpu: "%[4]s", memory: 128Mi}}}]
`, namespace, app, replicas, cpu, constraints, ports)
}

// wantMachines checks how many NodeClaims the pool has.
func (c *cluster) wantMachines(pool string, want int) {
	c.t.Helper()
	var machines []string
	for _, claim := range c.claims() {
		if claim.Labels[karpv1.NodePoolLabelKey] == pool {
			machines = append(machines, fmt.Sprintf("%s (%s)", claim.Status.NodeName, claim.CreationTimestamp))
		}
	}
	if len(machines) != want {
		c.t.Errorf("pool %s has %d machines, want %d: %v", pool, len(machines), want, machines)
	}
}

// podsBy counts the app's pods by a label of their nodes.
func (c *cluster) podsBy(key, namespace, app string) map[string]int {
	var pods corev1.PodList
	if err := c.List(context.Background(), &pods, client.InNamespace(namespace),
		client.MatchingLabels{"app": app}); err != nil {
		c.t.Fatal(err)
	}
	labels := map[string]string{}
	for _, n := range c.nodes() {
		labels[n.Name] = n.Labels[key]
	}
	n := map[string]int{}
	for _, p := range pods.Items {
		n[labels[p.Spec.NodeName]]++
	}
	return n
}

const overZones = `topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, minDomains: 3, labelSelector: {matchLabels: {app: web}}}]`

const awayFromWeb = `podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}`

const nearCache = `podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: cache}}}]}`

const onlyInZone = `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [%s]}]}]}}}`

// Without minDomains kube-scheduler knows only the zones of existing nodes and would put early pods where later ones
// should run. So a pod in each zone comes first, which leaves no room on its node.
func (c *cluster) zonesStory(t *testing.T) {
	c = c.ofTheirOwn(t, "zones")
	zones := []string{"us-west-2a", "us-west-2b", "us-west-2c"}
	for _, zone := range zones {
		c.apply(deployment("zones", zone, 1, "1500m", fmt.Sprintf(onlyInZone, zone), ""))
	}
	for _, zone := range zones {
		c.wantPods(2*time.Minute, "zones", zone, 1)
	}
	c.apply(deployment("zones", "web", 6, "500m", strings.Replace(overZones, "minDomains: 3, ", "", 1), ""))
	c.wantPods(2*time.Minute, "zones", "web", 6)
	if got := fmt.Sprint(c.podsBy(corev1.LabelTopologyZone, "zones", "web")); got !=
		"map[us-west-2a:2 us-west-2b:2 us-west-2c:2]" {
		t.Errorf("pods by zone: %s, want two in each of three", got)
	}
}

func (c *cluster) apartStory(t *testing.T) {
	c = c.ofTheirOwn(t, "apart")
	c.apply(deployment("apart", "web", 5, "500m", "affinity: {"+awayFromWeb+"}", ""))
	c.wantPods(2*time.Minute, "apart", "web", 5)
	if got := c.podsBy(corev1.LabelHostname, "apart", "web"); len(got) != 5 {
		t.Errorf("pods by machine: %v, want one on each of five", got)
	}
	c.wantMachines("apart", 5)
}

func (c *cluster) nearStory(t *testing.T) {
	c = c.ofTheirOwn(t, "near")
	c.apply(deployment("near", "web", 3, "250m", "affinity: {"+nearCache+"}", "") + deployment("near", "cache", 1,
		"250m", "", ""))
	c.wantPods(2*time.Minute, "near", "web", 3)
	c.wantPods(time.Minute, "near", "cache", 1)
	webs, caches := c.podsBy(corev1.LabelTopologyZone, "near", "web"), c.podsBy(corev1.LabelTopologyZone, "near", "cache")
	for zone := range webs {
		if len(webs) != 1 || caches[zone] != 1 {
			t.Errorf("web by zone: %v, cache: %v, want the same zone", webs, caches)
		}
	}
}

func (c *cluster) portsStory(t *testing.T) {
	c = c.ofTheirOwn(t, "ports")
	c.apply(deployment("ports", "proxy", 2, "250m", "", "{containerPort: 8080, hostPort: 8080}"))
	c.wantPods(2*time.Minute, "ports", "proxy", 2)
	if got := c.podsBy(corev1.LabelHostname, "ports", "proxy"); len(got) != 2 {
		t.Errorf("pods by machine: %v, want one on each of two", got)
	}
	c.wantMachines("ports", 2)
}

// Six replicas spread over three zones, each on a node of its own, and beside them workers with affinity to the
// cache's zone. The pool is created when all of them wait: a node launched for cache and workers alone would have no
// room for a replica, and there would be seven nodes.
func (c *cluster) mixedStory(t *testing.T) {
	c = c.in(t, "mixed")
	c.apply(deployment("mixed", "web", 6, "500m", overZones+"\n      affinity: {"+awayFromWeb+"}",
		"{containerPort: 80, hostPort: 8081}") +
		deployment("mixed", "cache", 1, "200m", "", "") + deployment("mixed", "worker", 2, "100m",
		"affinity: {"+nearCache+"}", ""))
	c.eventually(time.Minute, func() error {
		var pods corev1.PodList
		err := c.List(context.Background(), &pods, client.InNamespace("mixed"))
		if err == nil && len(pods.Items) != 9 {
			err = fmt.Errorf("%d pods wait, want 9", len(pods.Items))
		}
		return err
	})
	c.applyPool("mixed")
	c.wantPods(2*time.Minute, "mixed", "web", 6)
	c.wantPods(time.Minute, "mixed", "cache", 1)
	c.wantPods(time.Minute, "mixed", "worker", 2)
	if zones, hosts := c.podsBy(corev1.LabelTopologyZone, "mixed", "web"),
		c.podsBy(corev1.LabelHostname, "mixed", "web"); len(hosts) != 6 ||
		fmt.Sprint(zones) != "map[us-west-2a:2 us-west-2b:2 us-west-2c:2]" {
		t.Errorf("web by zone: %v, by machine: %v; want two in each of three zones, on six machines", zones, hosts)
	}
	c.wantMachines("mixed", 6)
	caches := c.podsBy(corev1.LabelTopologyZone, "mixed", "cache")
	for zone, n := range c.podsBy(corev1.LabelTopologyZone, "mixed", "worker") {
		if n != 2 || caches[zone] != 1 {
			t.Errorf("%d workers are in %s, the cache by zone: %v", n, zone, caches)
		}
	}
}

// A StatefulSet's volumes are created where their class allows, once the scheduler has chosen a node, and a recreated
// pod returns to its volume. The test plays the CSI driver.
func (c *cluster) diskStory(t *testing.T) {
	c = c.ofTheirOwn(t, "disk")
	c.apply(`
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: zone-b}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
allowedTopologies: [{matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [us-west-2b]}]}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: disk}
spec:
  replicas: 2
  serviceName: db
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      nodeSelector: {team: disk}
      terminationGracePeriodSeconds: 0
      containers: [{name: db, image: "postgres:17", volumeMounts: [{name: data, mountPath: /data}], resources: {requests: {cpu: 500m}}}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {storageClassName: zone-b, accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}}
`)
	c.eventually(2*time.Minute, func() error {
		if err := c.provision("disk"); err != nil {
			return err
		}
		if got := c.phases("disk", "db"); got["Running"] != 2 {
			return fmt.Errorf("db by phase: %v, want 2 Running", got)
		}
		return nil
	})
	c.kubectl("-n", "disk", "delete", "pod", "db-0")
	c.wantPods(time.Minute, "disk", "db", 2)
	if got := c.podsBy(corev1.LabelTopologyZone, "disk", "db"); len(got) != 1 || got["us-west-2b"] != 2 {
		t.Errorf("db by zone: %v, want both in us-west-2b", got)
	}
}

// provision creates a volume for each claim for which the scheduler has chosen a node, in that node's zone.
func (c *cluster) provision(namespace string) error {
	var claims corev1.PersistentVolumeClaimList
	if err := c.List(context.Background(), &claims, client.InNamespace(namespace)); err != nil {
		return err
	}
	for _, claim := range claims.Items {
		chosen := claim.Annotations["volume.kubernetes.io/selected-node"]
		if chosen == "" || claim.Spec.VolumeName != "" {
			continue
		}
		var node corev1.Node
		if err := c.Get(context.Background(), client.ObjectKey{Name: chosen}, &node); err != nil {
			return err
		}
		pv := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{
				Name:        "pvc-" + string(claim.UID),
				Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": "ebs.csi.aws.com"},
			},
			Spec: corev1.PersistentVolumeSpec{
				Capacity:         corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")},
				AccessModes:      claim.Spec.AccessModes,
				StorageClassName: *claim.Spec.StorageClassName,
				ClaimRef: &corev1.ObjectReference{
					Kind: "PersistentVolumeClaim", APIVersion: "v1",
					Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
				},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-" + string(claim.UID)}},
				NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key:      corev1.LabelTopologyZone,
						Operator: corev1.NodeSelectorOpIn, Values: []string{node.Labels[corev1.LabelTopologyZone]},
					}},
				}}}},
			},
		}
		if err := client.IgnoreAlreadyExists(c.Create(context.Background(), pv)); err != nil {
			return err
		}
	}
	return nil
}
