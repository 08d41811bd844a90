package stories

import (
	"fmt"
	"strings"
)

// volumeIn returns a volume in one zone, and the claim for it.
func volumeIn(name, zone string) string {
	return volumeLike(name, zone, "ReadWriteOnce", "hostPath: {path: /data}")
}

// volumeLike returns a volume of some kind, and the claim for it.
func volumeLike(name, zone, mode, source string) string {
	affinity := ""
	if zone != "" {
		affinity = "nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [" + zone + "]}]}]}}"
	}
	return `
apiVersion: v1
kind: PersistentVolume
metadata: {name: ` + name + `}
spec:
  capacity: {storage: 1Gi}
  accessModes: [` + mode + `]
  ` + source + `
  claimRef: {namespace: waiting, name: ` + name + `}
  ` + affinity + `
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: ` + name + `, namespace: waiting}
spec:
  storageClassName: ""
  volumeName: ` + name + `
  accessModes: [` + mode + `]
  resources: {requests: {storage: 1Gi}}
`
}

// unprovisioned is a claim of a storage class that provisions no volumes.
const unprovisioned = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk, namespace: waiting}
spec:
  storageClassName: local
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
`

// diskIn returns a volume of that class.
func diskIn(zone string) string {
	return `
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  storageClassName: local
  capacity: {storage: 2Gi}
  accessModes: [ReadWriteOnce]
  hostPath: {path: /disk}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [` + zone + `]}]}]}}
`
}

const awayFromFirst = `affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: first}}}]}}`

const besideFirst = `topologySpreadConstraints: [{maxSkew: 1, minDomains: 3, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchExpressions: [{key: app, operator: In, values: [first, spread]}]}}]`

// whyWaiting are pods, one for each rule that can keep a pod off a node. The first of them runs: others refer to it.
var whyWaiting = []waiting{
	{name: "first", pool: "zonal"},
	{
		name: "holder", pool: "zonal", spec: "volumes: [{name: data, persistentVolumeClaim: {claimName: alone}}]",
		also: volumeLike("alone", "", "ReadWriteOncePod", "hostPath: {path: /data}"),
	},
	{name: "memory", pool: "general-purpose", ask: "memory: 90Ti", rule: "Resource", change: "if it requested memory"},
	{name: "resource", pool: "general-purpose", ask: `example.com/unicorn: "1"`, rule: "Resource"},
	{
		name: "taint", pool: "gpu", rule: "Taint", change: "would fit in pool gpu if it tolerated gpu=true:NoSchedule",
	},
	{
		name: "arch", spec: "nodeSelector: {karpenter.sh/nodepool: general-purpose, kubernetes.io/arch: s390x}",
		rule:   "Requirement",
		change: "would fit in pool general-purpose if kubernetes.io/arch could be amd64 (now s390x)",
	},
	{
		name: "zone", spec: "nodeSelector: {karpenter.sh/nodepool: general-purpose, topology.kubernetes.io/zone: us-west-2z}", rule: "Requirement",
		change: "if topology.kubernetes.io/zone could be",
	},
	{
		name: "label", spec: "nodeSelector: {karpenter.sh/nodepool: general-purpose, colour: red}", rule: "Requirement",
		change: "would fit in pool general-purpose without colour red",
	},
	{
		name: "instance-type", spec: "nodeSelector: {karpenter.sh/nodepool: general-purpose, node.kubernetes.io/instance-type: t2.nano}", rule: "Requirement",
		change: "if node.kubernetes.io/instance-type could be",
	},
	{
		name: "limit-cpu", pool: "limited", spec: "tolerations: [{key: limited, operator: Exists}]", ask: `cpu: "3"`,
		rule: "Limit", change: "would fit if limit cpu of pool limited were 4 instead of 2",
	},
	{
		name: "limit-nodes", pool: "none", rule: "Limit", change: "would fit if limit nodes of pool none were 1 instead of 0",
	},
	{
		name: "min-values", spec: "nodeSelector: {karpenter.sh/nodepool: diverse}", rule: "MinValues",
		change: "would fit in pool zonal if karpenter.sh/nodepool could be zonal (now diverse)",
	},
	{
		name: "not-ready", spec: "nodeSelector: {team: unready}", rule: "PoolNotReady",
		change: "would fit in pool zonal if team could be zonal (now unready)",
	},
	{
		name: "claim-missing", pool: "general-purpose",
		spec: "volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]", rule: "Blocked",
		change: "persistentVolumeClaim data were created", fix: func(c *cluster) { c.apply(volumeIn("data", "")) },
	},
	{
		name: "claim-static", pool: "general-purpose",
		spec: "volumes: [{name: data, persistentVolumeClaim: {claimName: disk}}]", rule: "Blocked", also: unprovisioned,
		change: "if an available ReadWriteOnce persistentVolume of storageClass local and at least 1Gi were created",
		fix:    func(c *cluster) { c.apply(diskIn("us-west-2b")) },
	},
	{
		name: "volume-zone", spec: "volumes: [{name: data, persistentVolumeClaim: {claimName: elsewhere}}]\nnodeSelector: {team: zonal}",
		also: volumeIn("elsewhere", "us-west-2b"), rule: "Volume",
		change: "would fit in pool general-purpose without team zonal",
	},
	{
		name: "affinity", pool: "zonal", spec: nearNobodyRequired, rule: "PodAffinity",
		change: "would fit in pool zonal if its pod affinity on topology.kubernetes.io/zone were preferred, not required",
	},
	{
		name: "anti-affinity", pool: "zonal", spec: awayFromFirst, rule: "PodAntiAffinity",
		change: "would fit in pool zonal if its pod anti-affinity on topology.kubernetes.io/zone were preferred, not required",
	},
	{
		name: "spread", pool: "zonal", spec: besideFirst, rule: "TopologySpread",
		change: "would fit in pool zonal if its topology spread over topology.kubernetes.io/zone were ScheduleAnyway, not DoNotSchedule",
	},
	{
		name: "host-port", pool: "gpu", spec: `tolerations: [{key: gpu, value: "true", effect: NoSchedule}]`,
		ports: "{containerPort: 9100, hostPort: 9100}", rule: "HostPort",
		change: "would fit in pool gpu without host port TCP 9100", also: `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: exporter, namespace: waiting}
spec:
  selector: {matchLabels: {app: exporter}}
  template:
    metadata: {labels: {app: exporter}}
    spec:
      nodeSelector: {team: gpu}
      tolerations: [{operator: Exists}]
      containers: [{name: app, image: exporter, ports: [{containerPort: 9100, hostPort: 9100}]}]
`,
	},
	{
		name: "priority", low: true, pool: "general-purpose", spec: "priorityClassName: expendable",
		flags: []string{"--priority-cutoff", "-100"}, rule: "Priority",
		change: "would fit in pool general-purpose if its priority were -100 or higher",
		fix: func(c *cluster) {
			// it may have had room, and have been preempted
			c.kubectl("-n", "waiting", "delete", "pod", "priority", "--ignore-not-found")
			c.apply((&waiting{
				name: "priority", low: true, pool: "general-purpose",
				spec: "priorityClassName: worthwhile",
			}).manifest())
		},
	},
	{
		name: "volume-in-use", pool: "zonal", spec: "volumes: [{name: data, persistentVolumeClaim: {claimName: alone}}]",
		rule:   "VolumeInUse",
		change: "once pod waiting/holder, the only pod that may use volume",
		fix:    func(c *cluster) { c.kubectl("-n", "waiting", "delete", "pod", "holder") },
	},
	{
		name: "volume-limit", spec: volumesOf(30), also: manyVolumes(30), rule: "VolumeLimit",
		change: "volumes of driver ebs.csi.aws.com instead of 30", fix: func(c *cluster) {
			var most int
			out := c.why("pod/volume-limit", "-n", "waiting")
			if _, err := fmt.Sscanf(fact(out, "smallest change"), "would fit in pool gpu if it had %d volumes",
				&most); err != nil {
				c.t.Fatalf("%v:\n%s", err, out)
			}
			c.kubectl("-n", "waiting", "delete", "pod", "volume-limit")
			c.apply((&waiting{name: "volume-limit", spec: volumesOf(most)}).manifest())
		},
	},
	{
		name: "beside-daemon", spec: "nodeSelector: {karpenter.sh/nodepool: burdened, team: burdened}\ntolerations: [{key: burdened, operator: Exists}]", rule: "Resource",
		change: "would fit in pool burdened if it requested cpu 30m instead of 500m", also: `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: scanner, namespace: waiting}
spec:
  selector: {matchLabels: {app: scanner}}
  template:
    metadata: {labels: {app: scanner}}
    spec:
      nodeSelector: {team: burdened}
      tolerations: [{operator: Exists}]
      containers: [{name: app, image: scanner, resources: {requests: {cpu: 1900m}}}]
`,
	},
	{
		name: "capacity", pool: "sold-out", spec: "tolerations: [{key: sold-out, operator: Exists}]", rule: "Capacity",
		change: "would fit in pool zonal if karpenter.sh/nodepool could be zonal (now sold-out)",
	},
	{
		name: "resource-claims", pool: "general-purpose", spec: "resourceClaims: [{name: gpu, resourceClaimName: gpu}]",
		rule: "Unmodelled",
	},
	{name: "gated", spec: "schedulingGates: [{name: example.com/quota}]"},
	{name: "other-scheduler", spec: "schedulerName: volcano"},
}

const nearNobodyRequired = `affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: nobody}}}]}}`

// volumesOf returns the spec of a pod with n of manyVolumes, which only fits pool gpu: two labels say so.
func volumesOf(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("{name: v%[1]d, persistentVolumeClaim: {claimName: many-%[1]d}}", i))
	}
	return "nodeSelector: {karpenter.sh/nodepool: gpu, team: gpu}\ntolerations: [{key: gpu, operator: Exists}]\nvolumes: [" + strings.Join(list, ", ") + "]"
}

func manyVolumes(n int) string {
	var list []string
	for i := range n {
		source := fmt.Sprintf("csi: {driver: ebs.csi.aws.com, volumeHandle: vol-%d}", i)
		list = append(list, volumeLike(fmt.Sprintf("many-%d", i), "", "ReadWriteOnce", source))
	}
	return strings.Join(list, "---")
}
