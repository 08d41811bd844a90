package whatif

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Templates differ if their pods may run elsewhere, not by what the API server fills in.
func TestWhatMakesTemplatesDiffer(t *testing.T) {
	read := func(text string) *corev1.PodTemplateSpec {
		var out corev1.PodTemplateSpec
		if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		return &out
	}
	const written = `
metadata: {labels: {app: web}}
spec:
  initContainers: [{name: proxy, image: p, restartPolicy: Always, resources: {requests: {cpu: 100m}}}]
  containers: [{name: c, image: i, ports: [{containerPort: 80, hostPort: 80}], resources: {limits: {cpu: 0.5}}}]
  volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]
`
	const stored = `
metadata: {labels: {app: web}, annotations: {kubectl.kubernetes.io/restartedAt: "2026-11-02T10:00:00Z"}}
spec:
  initContainers: [{name: proxy, image: p, restartPolicy: Always, imagePullPolicy: Always, terminationMessagePath: /dev/termination-log, resources: {requests: {cpu: 0.1}}}]
  containers: [{name: c, image: i, imagePullPolicy: Always, ports: [{containerPort: 80, hostPort: 80, protocol: TCP}], resources: {limits: {cpu: 500m}, requests: {cpu: 500m}}}]
  volumes: [{name: v, ephemeral: {volumeClaimTemplate: {metadata: {}, spec: {accessModes: [ReadWriteOnce], volumeMode: Filesystem, resources: {requests: {storage: 1Gi}}}}}}]
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]
  dnsPolicy: ClusterFirst
  restartPolicy: Always
  schedulerName: default-scheduler
  securityContext: {}
  terminationGracePeriodSeconds: 30
`
	if !sameTemplate(read(stored), read(written)) {
		t.Error("a template differs from what the API server stores of it")
	}
	for name, edit := range map[string][2]string{
		"a sidecar's request":     {"cpu: 100m", "cpu: 200m"},
		"a sidecar":               {"restartPolicy: Always, ", ""},
		"a request":               {"cpu: 0.5", "cpu: 0.6"},
		"a host port":             {"hostPort: 80", "hostPort: 81"},
		"a protocol":              {"hostPort: 80", "hostPort: 80, protocol: UDP"},
		"a spread constraint":     {"maxSkew: 1", "maxSkew: 2"},
		"the size of a volume":    {"storage: 1Gi", "storage: 2Gi"},
		"a claim":                 {"ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}", "persistentVolumeClaim: {claimName: a}"},
		"a disk of Google":        {"volumes: [", "volumes: [{name: d, gcePersistentDisk: {pdName: a}}, "},
		"a disk over iSCSI":       {"volumes: [", "volumes: [{name: d, iscsi: {targetPortal: p, iqn: q, lun: 0}}, "},
		"an image of Ceph":        {"volumes: [", "volumes: [{name: d, rbd: {monitors: [m], image: a}}, "},
		"the host's network":      {"spec:\n", "spec:\n  hostNetwork: true\n"},
		"a priority class":        {"spec:\n", "spec:\n  priorityClassName: high\n"},
		"a scheduler":             {"spec:\n", "spec:\n  schedulerName: mine\n"},
		"a runtime class":         {"spec:\n", "spec:\n  runtimeClassName: gvisor\n"},
		"an operating system":     {"spec:\n", "spec:\n  os: {name: windows}\n"},
		"a scheduling gate":       {"spec:\n", "spec:\n  schedulingGates: [{name: a}]\n"},
		"a resource claim":        {"spec:\n", "spec:\n  resourceClaims: [{name: gpu, resourceClaimName: gpu}]\n"},
		"do-not-disrupt":          {"labels", `annotations: {karpenter.sh/do-not-disrupt: "true"}, labels`},
		"the autoscaler's answer": {"labels", `annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict: "false"}, labels`},
		"a label":                 {"{app: web}}\nspec", "{app: shop}}\nspec"},
	} {
		if !strings.Contains(written, edit[0]) {
			t.Fatalf("%s: the template has no %q", name, edit[0])
		}
		if sameTemplate(read(written), read(strings.Replace(written, edit[0], edit[1], 1))) {
			t.Errorf("%s makes no difference", name)
		}
	}
}
