package translate

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/engine/model"
)

// shelf is a Storage of fixed objects.
type shelf struct {
	claims  map[string]*corev1.PersistentVolumeClaim
	volumes map[string]*corev1.PersistentVolume
	classes map[string]*storagev1.StorageClass
	drivers map[string]*storagev1.CSIDriver
	reports []*storagev1.CSIStorageCapacity
	known   map[string]*Capacities // by class: what was read of reports
}

func (s shelf) Driver(name string) *storagev1.CSIDriver { return s.drivers[name] }

func (s shelf) Capacities(class string) *Capacities {
	if s.known[class] == nil {
		s.known[class] = NewCapacities(class, slices.DeleteFunc(slices.Clone(s.reports),
			func(c *storagev1.CSIStorageCapacity) bool { return c.StorageClassName != class }))
	}
	return s.known[class]
}

func (s shelf) VolumeClaim(ns, name string) *corev1.PersistentVolumeClaim {
	return s.claims[ns+"/"+name]
}
func (s shelf) Volume(name string) *corev1.PersistentVolume { return s.volumes[name] }
func (s shelf) Class(name string) *storagev1.StorageClass   { return s.classes[name] }
func (s shelf) DefaultClass() *storagev1.StorageClass       { return s.classes["waits"] }

func (s shelf) Devices() Devices { return nil }

func (s shelf) VolumesOf(class string) (found []*corev1.PersistentVolume) {
	for _, v := range s.volumes {
		if v.Spec.StorageClassName == class {
			found = append(found, v)
		}
	}
	slices.SortFunc(found, func(a, b *corev1.PersistentVolume) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// shelfOf returns a shelf with the given claim shop/data and volume pv, and some storage classes.
func shelfOf(t *testing.T, claim, volume string) shelf {
	t.Helper()
	s := shelf{
		known:  map[string]*Capacities{},
		claims: map[string]*corev1.PersistentVolumeClaim{}, volumes: map[string]*corev1.PersistentVolume{},
		classes: map[string]*storagev1.StorageClass{},
	}
	for name, text := range map[string]string{
		"waits":   `{provisioner: kubernetes.io/aws-ebs, volumeBindingMode: WaitForFirstConsumer, allowedTopologies: [{matchLabelExpressions: [{key: topology.ebs.csi.aws.com/zone, values: [b, a]}]}, {}]}`,
		"nowhere": `{provisioner: p, volumeBindingMode: WaitForFirstConsumer, allowedTopologies: [{}]}`,
		"hurries": `{provisioner: efs.csi.aws.com, volumeBindingMode: Immediate}`,
		"local":   `{provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer}`,
	} {
		s.classes[name] = &storagev1.StorageClass{}
		s.classes[name].Name = name
		must(t, yaml.UnmarshalStrict([]byte(text), s.classes[name]))
	}
	if claim != "" {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "1"}}
		must(t, yaml.UnmarshalStrict([]byte(claim), c))
		s.claims["shop/data"] = c
	}
	if volume != "" {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
		must(t, yaml.UnmarshalStrict([]byte(volume), v))
		s.volumes["pv"] = v
	}
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wordsOf formats a shape's volumes.
func wordsOf(s model.Shape) string {
	var out []string
	for _, v := range s.Volumes {
		text := v.ID + " by " + v.Driver
		if v.Alone {
			text += " alone"
		}
		for _, t := range v.Topology {
			text += " at (" + t.String() + ")"
		}
		if v.Short != "" {
			text += " short: " + v.Short
		}
		out = append(out, text)
	}
	if s.Blocked != "" {
		out = append(out, "blocked: "+s.Blocked)
	}
	return strings.Join(append(out, s.Unmodelled...), "; ")
}

func TestVolumes(t *testing.T) {
	const bound = `{metadata: {annotations: {pv.kubernetes.io/bind-completed: "yes"}}, spec: {volumeName: pv}}`
	for name, c := range map[string]struct{ claim, volume, want string }{
		"bound, with node affinity": {
			bound, `{spec: {csi: {driver: ebs.csi.aws.com, volumeHandle: vol-1}, nodeAffinity: {required: {nodeSelectorTerms: [
			{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a]}, {key: k, operator: Exists}]}, {matchExpressions: [{key: topology.ebs.csi.aws.com/zone, operator: In, values: [b]}]}, {}]}}}}`,
			"ebs.csi.aws.com/vol-1 by ebs.csi.aws.com at (k Exists, topology.kubernetes.io/zone In [a]) at (topology.kubernetes.io/zone In [b])",
		},
		"bound, anywhere": {bound, `{spec: {nfs: {server: s, path: /}}}`, "pv/pv by "},
		"bound, nowhere": {
			bound,
			`{spec: {nfs: {server: s, path: /}, nodeAffinity: {required: {nodeSelectorTerms: [{}]}}}}`,
			"pv/pv by  at (field:metadata.name In [])",
		},
		"bound, as in old times": {
			bound,
			`{metadata: {labels: {failure-domain.beta.kubernetes.io/zone: a__b}}, spec: {awsElasticBlockStore: {volumeID: aws://a/vol-2}}}`, "ebs.csi.aws.com/vol-2 by ebs.csi.aws.com at (topology.kubernetes.io/zone In [a b])",
		},
		"bound, in zones by name": {
			bound,
			`{metadata: {labels: {topology.kubernetes.io/zone: a__b}}, spec: {nfs: {server: s, path: /}}}`,
			"pv/pv by  at (topology.kubernetes.io/region DoesNotExist, topology.kubernetes.io/zone DoesNotExist) at (topology.kubernetes.io/zone In [a b])",
		},
		"bound to a lost volume": {
			bound, ``,
			"pvc/shop/data by ; blocked: persistentVolumeClaim data is bound to persistentVolume pv, which does not exist: restore it, or delete the claim and make it anew",
		},
		"half bound": {
			`{spec: {volumeName: pv}}`, `{spec: {nfs: {server: s, path: /}}}`,
			"pvc/shop/data by ; blocked: persistentVolumeClaim data is not bound to persistentVolume pv yet: see that the volume exists and fits the claim",
		},
		"waits for the pod": {
			`{spec: {storageClassName: waits}}`, ``,
			"pvc/shop/data by ebs.csi.aws.com at (topology.kubernetes.io/zone In [a b])",
		},
		"is being made for a node": {`{metadata: {annotations: {volume.kubernetes.io/selected-node: n1}}, spec: {storageClassName: waits}}`, ``, "pvc/shop/data by ebs.csi.aws.com at (field:metadata.name In [n1], topology.kubernetes.io/zone In [a b])"},
		"for one pod": {
			`{spec: {storageClassName: waits, accessModes: [ReadWriteOncePod]}}`, ``,
			"pvc/shop/data by ebs.csi.aws.com alone at (topology.kubernetes.io/zone In [a b])",
		},
		"can be made nowhere": {
			`{spec: {storageClassName: nowhere}}`, ``,
			"pvc/shop/data by p at (field:metadata.name In [])",
		},
		"does not wait": {
			`{spec: {storageClassName: hurries}}`, ``,
			"pvc/shop/data by efs.csi.aws.com; blocked: persistentVolumeClaim data is not bound yet, and its storageClass hurries does not wait for a pod: see why provisioner efs.csi.aws.com has made no volume, or use volumeBindingMode WaitForFirstConsumer",
		},
		"no such class": {
			`{spec: {storageClassName: gold}}`, ``,
			"pvc/shop/data by ; blocked: persistentVolumeClaim data asks for storageClass gold, which does not exist: create it",
		},
		"no class": {
			`{}`, ``,
			"pvc/shop/data by ; blocked: persistentVolumeClaim data has no storageClass and is not bound: give it a storageClass, or a persistentVolume that fits",
		},
		"no provisioner, and yet a node is chosen": {
			`{metadata: {annotations: {volume.kubernetes.io/selected-node: n1}}, spec: {storageClassName: local}}`, ``,
			"pvc/shop/data by ; blocked: persistentVolumeClaim data waits until a volume is made for node n1, and its storageClass local has no provisioner: delete the claim and make it anew",
		},
		"no provisioner": {
			`{spec: {storageClassName: local}}`, ``,
			"pvc/shop/data by ; blocked: persistentVolumeClaim data asks for an available persistentVolume of storageClass local and at least 0, which does not exist: create it",
		},
		"is not there": {``, ``, "blocked: persistentVolumeClaim data does not exist: create it"},
		"is going": {
			`{metadata: {deletionTimestamp: "2026-06-03T12:00:00Z"}, spec: {storageClassName: waits}}`,
			``, "pvc/shop/data by ebs.csi.aws.com at (topology.kubernetes.io/zone In [a b]); blocked: persistentVolumeClaim data is being deleted: make it anew when it is gone",
		},
		"is lost": {
			`{spec: {volumeName: pv}, status: {phase: Lost}}`, ``,
			"pvc/shop/data by ; blocked: persistentVolumeClaim data has lost its volume pv: restore the volume, or delete the claim and make it anew",
		},
		"by the beta name": {
			`{metadata: {annotations: {volume.beta.kubernetes.io/storage-class: waits}}}`, ``,
			"pvc/shop/data by ebs.csi.aws.com at (topology.kubernetes.io/zone In [a b])",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podFrom(t, "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}, {name: again, persistentVolumeClaim: {claimName: data}}, {name: tmp, emptyDir: {}}]")
			s := NewNames().Shape(pod, shelfOf(t, c.claim, c.volume))
			if got := wordsOf(s); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestEphemeralVolumes(t *testing.T) {
	pod := podFrom(t, `volumes: [{name: scratch, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce]}}}}]`)
	n := NewNames()
	none := shelfOf(t, "", "")
	if got, want := wordsOf(n.Shape(pod, none)),
		"pvc/shop/web-1-scratch by ebs.csi.aws.com at (topology.kubernetes.io/zone In [a b])"; got != want {
		t.Errorf("before it is made: %s", got)
	}
	if names := VolumeClaimNames(pod); len(names) != 1 || names[0] != "web-1-scratch" {
		t.Errorf("got %v", names)
	}
	made := shelfOf(t, `{spec: {storageClassName: waits}}`, "")
	claim := made.claims["shop/data"]
	claim.Name, made.claims["shop/web-1-scratch"] = "web-1-scratch", claim
	if got := wordsOf(n.Shape(pod, made)); !strings.Contains(got,
		"blocked: persistentVolumeClaim web-1-scratch is in the way of the ephemeral volume scratch") {
		t.Errorf("somebody else's: %s", got)
	}
	yes := true
	claim.OwnerReferences = []metav1.OwnerReference{{UID: pod.UID, Controller: &yes}}
	if got, want := wordsOf(n.Shape(pod, made)),
		"pvc/shop/web-1-scratch by ebs.csi.aws.com at (topology.kubernetes.io/zone In [a b])"; got != want {
		t.Errorf("its own: %s", got)
	}
}

func TestVolumesNobodyCanJudge(t *testing.T) {
	pod := podFrom(t, "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]")
	if got := fmt.Sprint(NewNames().Shape(pod, nil).Unmodelled); got != "[persistentVolumeClaim]" {
		t.Errorf("got %s", got)
	}
}

// Pods that refer to a disk directly keep apart from other such pods, unless all of them only read it; EBS has no
// such exception, and its driver counts the volume.
func TestDisksThatAPodNamesItself(t *testing.T) {
	for volumes, want := range map[string]string{
		"{name: d, awsElasticBlockStore: {volumeID: aws://a/vol-1, readOnly: true}}":                                               "awsElasticBlockStore aws://a/vol-1 read-write apart from Exists; attaches ebs.csi.aws.com/vol-1",
		"{name: d, gcePersistentDisk: {pdName: pd, readOnly: true}}":                                                               "gcePersistentDisk pd read-only apart from In [read-write]; attaches pd.csi.storage.gke.io/pd",
		"{name: d, iscsi: {targetPortal: p, iqn: q, lun: 0}}":                                                                      "iscsi q read-write apart from Exists;",
		"{name: d, iscsi: {targetPortal: p, iqn: q, lun: 0}}, {name: e, iscsi: {targetPortal: p, iqn: q, lun: 1, readOnly: true}}": "iscsi q read-write apart from Exists;",
		"{name: d, rbd: {monitors: [m1, m2], image: i, pool: p, readOnly: true}}": "rbd m1/p/i read-only apart from In [read-write]; " +
			"rbd m2/p/i read-only apart from In [read-write];",
	} {
		s := NewNames().Shape(podFrom(t, "volumes: ["+volumes+"]"), nil)
		var got string
		for _, term := range s.AntiAffinity {
			key := term.Pods.Labels[0].Key
			disk := strings.TrimPrefix(key, diskLabel)
			value, _ := model.Value(s.Labels, key)
			got += disk + " " + value + " apart from" + strings.TrimPrefix(term.Pods.Labels.String(), diskLabel+disk) + "; "
			if term.Topology != model.LabelHostname || !term.Pods.InMatching || len(term.Pods.NamespaceLabels) > 0 {
				t.Errorf("%s: %+v", volumes, term)
			}
		}
		for _, v := range s.Volumes {
			got += "attaches " + v.ID
		}
		if strings.TrimSpace(got) != want || len(s.Unmodelled) > 0 {
			t.Errorf("%s: got\n%s %v, want\n%s", volumes, got, s.Unmodelled, want)
		}
	}
}

func TestAttachLimits(t *testing.T) {
	var c storagev1.CSINode
	must(t, yaml.UnmarshalStrict([]byte(
		`spec: {drivers: [{name: b, nodeID: i, allocatable: {count: 25}}, {name: c, nodeID: i}, {name: a, nodeID: i, allocatable: {count: 0}}]}`), &c))
	if got, want := AttachLimits(&c),
		[]model.AttachLimit{{Driver: "a"}, {Driver: "b", Max: 25}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if AttachLimits(nil) != nil {
		t.Error("no CSINode, no limits")
	}
}

// Claims without a provisioner are placed where each of them finds a volume of its own.
func TestVolumesThatNobodyProvisions(t *testing.T) {
	const on = `nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [%s]}]}]}}`
	volume := func(name, size, mode, node string) *corev1.PersistentVolume {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
		affinity := ""
		if node != "" {
			affinity = fmt.Sprintf(on, node)
		}
		must(t, yaml.UnmarshalStrict(fmt.Appendf(nil, `{spec: {storageClassName: local, capacity: {storage: %s}, accessModes: [%s],
			local: {path: /disks/0}, %s}, status: {phase: Available}}`, size, mode, affinity), v))
		return v
	}
	of := func(node string) string { return "kubernetes.io/hostname In [" + node + "]" }
	one, two := volume("one", "10Gi", "ReadWriteOnce", "n1"), volume("two", "20Gi", "ReadWriteOnce", "n2")
	used := volume("used", "20Gi", "ReadWriteOnce", "n3")
	used.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "other", UID: "7"}
	promised := volume("promised", "20Gi", "ReadWriteOnce", "n4")
	promised.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "c0"}
	released := volume("released", "20Gi", "ReadWriteOnce", "n5")
	released.Status.Phase = corev1.VolumeReleased
	many := volume("many", "20Gi", "ReadWriteMany", "n6")
	for what, c := range map[string]struct {
		sizes   []string // requests of the claims c0, c1, ...
		volumes []*corev1.PersistentVolume
		want    string // the first claim's topology, or what blocks the pod
	}{
		"either node":     {[]string{"10Gi"}, []*corev1.PersistentVolume{one, two}, of("n1") + " | " + of("n2")},
		"large enough":    {[]string{"11Gi"}, []*corev1.PersistentVolume{one, two}, of("n2")},
		"not in use":      {[]string{"10Gi"}, []*corev1.PersistentVolume{one, used, released}, of("n1")},
		"by access mode":  {[]string{"10Gi"}, []*corev1.PersistentVolume{many, two}, of("n2")},
		"promised to it":  {[]string{"10Gi"}, []*corev1.PersistentVolume{promised}, of("n4")},
		"everywhere":      {[]string{"10Gi"}, []*corev1.PersistentVolume{one, volume("nfs", "1Ti", "ReadWriteOnce", "")}, ""},
		"two on one node": {[]string{"10Gi", "5Gi"}, []*corev1.PersistentVolume{one, two, volume("more", "10Gi", "ReadWriteOnce", "n1")}, of("n1")},
		"the small claim takes the small volume": {
			[]string{"20Gi", "5Gi"}, []*corev1.PersistentVolume{volume("small", "9Gi", "ReadWriteOnce", "n2"), two, one}, of("n2"),
		},
		"one here, one everywhere": {
			[]string{"10Gi", "5Gi"}, []*corev1.PersistentVolume{one, volume("nfs", "1Ti", "ReadWriteOnce", "")}, of("n1"),
		},
		"one node has one of two": {
			[]string{"10Gi", "5Gi"},
			[]*corev1.PersistentVolume{one, two},
			"persistentVolumeClaim c0 asks for an available ReadWriteOnce persistentVolume of storageClass local and at least 10Gi, which does not exist: create it",
		},
		"all too small": {
			[]string{"30Gi"},
			[]*corev1.PersistentVolume{one, two},
			"persistentVolumeClaim c0 asks for an available ReadWriteOnce persistentVolume of storageClass local and at least 30Gi, which does not exist: create it",
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := shelfOf(t, "", "")
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"}}
			for i, size := range c.sizes {
				name := fmt.Sprintf("c%d", i)
				s.claims["shop/"+name] = &corev1.PersistentVolumeClaim{}
				must(t, yaml.UnmarshalStrict(fmt.Appendf(nil, `{metadata: {namespace: shop, name: %s, uid: u%d}, spec: {storageClassName: local,
					accessModes: [ReadWriteOnce], resources: {requests: {storage: %s}}}}`, name, i, size), s.claims["shop/"+name]))
				pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
				}})
			}
			for _, v := range c.volumes {
				s.volumes[v.Name] = v
			}
			var shape model.Shape
			addVolumes(&shape, pod, s)
			var places []string
			for _, place := range shape.Volumes[0].Topology {
				places = append(places, place.String())
			}
			if got := shape.Blocked + strings.Join(places, " | "); got != c.want || len(shape.Volumes) != len(c.sizes) {
				t.Errorf("%d volumes, %s", len(shape.Volumes), got)
			}
		})
	}
}
