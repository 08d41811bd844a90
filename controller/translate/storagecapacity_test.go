package translate

import (
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/yaml"
)

// reports parses CSIStorageCapacities.
func reports(t *testing.T, text string) []*storagev1.CSIStorageCapacity {
	t.Helper()
	var out []*storagev1.CSIStorageCapacity
	must(t, yaml.UnmarshalStrict([]byte(text), &out))
	return out
}

const (
	zoneA = `{storageClassName: array, nodeTopology: {matchLabels: {topology.kubernetes.io/zone: a}}, `
	zoneB = `{storageClassName: array, nodeTopology: {matchLabels: {topology.kubernetes.io/zone: b}}, `
	disk1 = `{storageClassName: array, nodeTopology: {matchLabels: {disks/node: n1}}, `
	disk2 = `{storageClassName: array, nodeTopology: {matchLabels: {disks/node: n2}}, `
	cellA = `{storageClassName: array, nodeTopology: {matchLabels: {topology.disks/zone: a}}, `
	cellB = `{storageClassName: array, nodeTopology: {matchLabels: {topology.disks/zone: b}}, `
)

// A volume of 20Gi is created where its driver reports enough storage.
func TestVolumesAreCreatedWhereThereIsStorage(t *testing.T) {
	const (
		at, short = "pvc/shop/data by disks", "storageClass array has less than the 20Gi requested: "
		pools     = " at (karpenter.sh/nodepool Exists)"
		notIn     = " at (karpenter.sh/nodepool Exists, topology.kubernetes.io/zone "
		inZone    = " at topology.kubernetes.io/zone In "
	)
	for name, c := range map[string]struct {
		reports string
		want    string
	}{
		"in one zone": {
			reports: "[" + zoneA + "capacity: 5Gi}, " + zoneB + "capacity: 20Gi}]",
			want:    at + notIn + "NotIn [a]) at (topology.kubernetes.io/zone In [b]) short: " + short + "5Gi" + inZone + "[a]",
		},
		"in two zones": {
			reports: "[" + zoneA + "capacity: 50Gi}, " + zoneB + "capacity: 20Gi}]",
			want:    at + pools + " at (topology.kubernetes.io/zone In [a b])",
		},
		"the largest volume counts, not what is free": {
			reports: "[" + zoneA + "capacity: 50Gi, maximumVolumeSize: 19Gi}, " +
				zoneB + "capacity: 1Gi, maximumVolumeSize: 20Gi}]",
			want: at + notIn + "NotIn [a]) at (topology.kubernetes.io/zone In [b]) short: " + short + "19Gi" + inZone + "[a]",
		},
		"twice in a zone, once enough": {
			reports: "[" + zoneA + "capacity: 5Gi}, " + zoneA + "capacity: 20Gi}]",
			want:    at + pools + " at (topology.kubernetes.io/zone In [a]) short: " + short + "5Gi" + inZone + "[a]",
		},
		"only where nothing is reported: the driver may not run there yet": {
			reports: "[" + zoneA + "capacity: 5Gi}, " + zoneB + "capacity: 6Gi}]",
			want:    at + notIn + "NotIn [a b]) short: " + short + "6Gi" + inZone + "[b], 5Gi" + inZone + "[a]",
		},
		"everywhere": {reports: "[" + zoneA + "capacity: 5Gi}, {storageClassName: array, nodeTopology: {}, capacity: 1Ti}]", want: at},
		"without nodeTopology, or without a number, is nowhere": {
			reports: "[" + zoneA + "capacity: 20Gi}, {storageClassName: array, capacity: 1Ti}, " + zoneB + "}]",
			want:    at + pools + " at (topology.kubernetes.io/zone In [a])",
		},
		"of another class": {
			reports: "[" + zoneA + "capacity: 20Gi}, {storageClassName: other, nodeTopology: {}, capacity: 1Ti}]",
			want:    at + pools + " at (topology.kubernetes.io/zone In [a])",
		},
		"nothing is reported yet": {reports: "[]", want: at + pools},
		"on a node, or on one of a NodePool, which may get storage": {
			reports: "[" + disk1 + "capacity: 5Gi}, " + disk2 + "capacity: 20Gi}]",
			want:    at + " at (disks/node In [n2])" + pools + " short: " + short + "5Gi at disks/node In [n1]",
		},
		"in a zone by the driver's own name": {
			reports: "[" + cellA + "capacity: 5Gi}, " + cellB + "capacity: 20Gi}]",
			want:    at + pools + " at (topology.disks/zone In [b]) short: " + short + "5Gi at topology.disks/zone In [a]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := shelfOf(t, `{spec: {storageClassName: array, resources: {requests: {storage: 20Gi}}}}`, "")
			s.reports = reports(t, c.reports)
			expectCreated(t, s, `{storageCapacity: true}`, "{}", c.want)
		})
	}
}

// expectCreated checks where the volume of the claim shop/data is created.
func expectCreated(t *testing.T, s shelf, driver, class, want string) {
	t.Helper()
	s.drivers = map[string]*storagev1.CSIDriver{"disks": {}}
	must(t, yaml.UnmarshalStrict([]byte(driver), &s.drivers["disks"].Spec))
	waits := storagev1.VolumeBindingWaitForFirstConsumer
	s.classes["array"] = &storagev1.StorageClass{Provisioner: "disks", VolumeBindingMode: &waits}
	must(t, yaml.UnmarshalStrict([]byte(class), s.classes["array"]))
	s.classes["array"].Name = "array"
	pod := podFrom(t, "{volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}")
	if got := wordsOf(NewNames().Shape(pod, s)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Once kube-scheduler has selected a node for one claim, others of its class and size can still be anywhere.
func TestASelectedNodeIsOfOneClaim(t *testing.T) {
	const claim = `spec: {storageClassName: array, resources: {requests: {storage: 20Gi}}}`
	s := shelfOf(t, `{metadata: {annotations: {volume.kubernetes.io/selected-node: n1}}, `+claim+`}`, "")
	s.reports = reports(t, "["+zoneA+"capacity: 20Gi}]")
	expectCreated(t, s, "{storageCapacity: true}", "{}", "pvc/shop/data by disks at (field:metadata.name In [n1], "+
		"karpenter.sh/nodepool Exists) at (field:metadata.name In [n1], topology.kubernetes.io/zone In [a])")
	delete(s.claims["shop/data"].Annotations, "volume.kubernetes.io/selected-node")
	expectCreated(t, s, "{storageCapacity: true}", "{}", "pvc/shop/data by disks at (karpenter.sh/nodepool Exists) at "+
		"(topology.kubernetes.io/zone In [a])")
}

func TestStorageCapacityCountsOnlyWhereItIsTracked(t *testing.T) {
	const unlimited = "pvc/shop/data by disks"
	const short = "storageClass array has less than the 20Gi requested: 5Gi at topology.kubernetes.io/zone In [a]"
	for name, c := range map[string]struct{ claim, driver, class, want string }{
		"a driver that does not track it":  {"{requests: {storage: 20Gi}}", "{}", "{}", unlimited},
		"a driver that says so":            {"{requests: {storage: 20Gi}}", "{storageCapacity: false}", "{}", unlimited},
		"a claim that requests no storage": {"{}", "{storageCapacity: true}", "{}", unlimited},
		"the class allows another zone, too": {
			"{requests: {storage: 1Gi}}", "{storageCapacity: true}",
			"{allowedTopologies: [{matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [a, b]}]}]}",
			unlimited + " at (karpenter.sh/nodepool Exists, topology.kubernetes.io/zone In [a b])" +
				" at (topology.kubernetes.io/zone In [a])",
		},
		"the class allows only a zone with too little": {
			"{requests: {storage: 20Gi}}", "{storageCapacity: true}",
			"{allowedTopologies: [{matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [a]}]}]}",
			unlimited + " at (field:metadata.name In []) short: " + short + "; blocked: persistentVolumeClaim data gets no " +
				"volume anywhere: " + short + "; add storage, or request less",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := shelfOf(t, `{spec: {storageClassName: array, resources: `+c.claim+`}}`, "")
			s.reports = reports(t, "["+zoneA+"capacity: 5Gi}]")
			expectCreated(t, s, c.driver, c.class, c.want)
		})
	}
}
