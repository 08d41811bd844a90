package stories

// volumeIn is a volume in one zone, and the claim for it.
func volumeIn(name, zone string) string {
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
  accessModes: [ReadWriteOnce]
  hostPath: {path: /data}
  claimRef: {namespace: waiting, name: ` + name + `}
  ` + affinity + `
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: ` + name + `, namespace: waiting}
spec:
  storageClassName: ""
  volumeName: ` + name + `
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
`
}

const awayFromFirst = `affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: first}}}]}}`

const awayFromFirstPreferred = `affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: first}}}}]}}`

const besideFirst = `topologySpreadConstraints: [{maxSkew: 1, minDomains: 3, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchExpressions: [{key: app, operator: In, values: [first, spread]}]}}]`

// whyWaiting are pods, one for each rule that can keep a pod from a machine. The first of them runs: others look at it.
var whyWaiting = []waiting{
	{name: "first", pool: "zonal"},
	{name: "memory", pool: "general-purpose", ask: "memory: 90Ti", rule: "Resource", change: "if it asked for memory", fixed: "memory = TO"},
	{name: "resource", pool: "general-purpose", ask: `example.com/unicorn: "1"`, rule: "Resource"},
	{
		name: "taint", pool: "gpu", rule: "Taint", change: "would fit in pool gpu if it tolerated gpu=true:NoSchedule",
		fixed: `tolerations: [{key: gpu, value: "true", effect: NoSchedule}]`,
	},
	{
		name: "arch", spec: "nodeSelector: {karpenter.sh/nodepool: general-purpose, kubernetes.io/arch: s390x}", rule: "Requirement",
		change: "would fit in pool general-purpose if kubernetes.io/arch could be amd64 (now s390x)",
		fixed:  "nodeSelector: {karpenter.sh/nodepool: general-purpose, kubernetes.io/arch: TO}",
	},
	{
		name: "zone", spec: "nodeSelector: {karpenter.sh/nodepool: general-purpose, topology.kubernetes.io/zone: us-west-2z}", rule: "Requirement",
		change: "if topology.kubernetes.io/zone could be", fixed: "nodeSelector: {karpenter.sh/nodepool: general-purpose, topology.kubernetes.io/zone: TO}",
	},
	{
		name: "label", spec: "nodeSelector: {karpenter.sh/nodepool: general-purpose, colour: red}", rule: "Requirement",
		change: "would fit in pool general-purpose without colour red", fixed: "nodeSelector: {karpenter.sh/nodepool: general-purpose}",
	},
	{
		name: "instance-type", spec: "nodeSelector: {karpenter.sh/nodepool: general-purpose, node.kubernetes.io/instance-type: t2.nano}", rule: "Requirement",
		change: "if node.kubernetes.io/instance-type could be", fixed: "nodeSelector: {karpenter.sh/nodepool: general-purpose, node.kubernetes.io/instance-type: TO}",
	},
	{
		name: "limit-cpu", pool: "limited", spec: "tolerations: [{key: limited, operator: Exists}]", ask: `cpu: "3"`, rule: "Limit", change: "would fit if limit cpu of pool limited were 4 instead of 2",
		fix: func(c *cluster) {
			c.kubectl("patch", "nodepool", "limited", "--type", "merge", "-p", `{"spec":{"limits":{"cpu":"4"}}}`)
		},
	},
	{
		name: "limit-nodes", pool: "none", rule: "Limit", change: "would fit if limit nodes of pool none were 1 instead of 0",
		fix: func(c *cluster) {
			c.kubectl("patch", "nodepool", "none", "--type", "merge", "-p", `{"spec":{"limits":{"nodes":"1"}}}`)
		},
	},
	{
		name: "min-values", spec: "nodeSelector: {karpenter.sh/nodepool: diverse}", rule: "MinValues",
		change: "would fit in pool zonal if karpenter.sh/nodepool could be zonal (now diverse)", fixed: "nodeSelector: {karpenter.sh/nodepool: TO}",
	},
	{
		name: "not-ready", spec: "nodeSelector: {team: unready}", rule: "PoolNotReady",
		change: "would fit in pool zonal if team could be zonal (now unready)", fixed: "nodeSelector: {team: TO}",
	},
	{
		name: "claim-missing", pool: "general-purpose", spec: "volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]", rule: "Blocked",
		change: "persistentVolumeClaim data were created", fix: func(c *cluster) { c.apply(volumeIn("data", "")) },
	},
	{
		name: "volume-zone", spec: "volumes: [{name: data, persistentVolumeClaim: {claimName: elsewhere}}]\nnodeSelector: {team: zonal}",
		also: volumeIn("elsewhere", "us-west-2b"), rule: "Volume",
		change: "would fit in pool general-purpose without team zonal", fixed: "volumes: [{name: data, persistentVolumeClaim: {claimName: elsewhere}}]",
	},
	{
		name: "affinity", pool: "zonal", spec: nearNobodyRequired, rule: "PodAffinity",
		change: "would fit in pool zonal if its pod affinity on topology.kubernetes.io/zone were preferred, not required", fixed: nearNobodyPreferred,
	},
	{
		name: "anti-affinity", pool: "zonal", spec: awayFromFirst, rule: "PodAntiAffinity",
		change: "would fit in pool zonal if its pod anti-affinity on topology.kubernetes.io/zone were preferred, not required", fixed: awayFromFirstPreferred,
	},
	{
		name: "spread", pool: "zonal", spec: besideFirst, rule: "TopologySpread",
		change: "would fit in pool zonal if its topology spread over topology.kubernetes.io/zone were ScheduleAnyway, not DoNotSchedule", fixed: besideFirstAnyway,
	},
	{
		name: "host-port", pool: "gpu", spec: `tolerations: [{key: gpu, value: "true", effect: NoSchedule}]`, ports: "{containerPort: 9100, hostPort: 9100}", rule: "HostPort",
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
	{name: "resource-claims", pool: "general-purpose", spec: "resourceClaims: [{name: gpu, resourceClaimName: gpu}]", rule: "Unmodelled"},
	{name: "gated", spec: "schedulingGates: [{name: example.com/quota}]"},
	{name: "other-scheduler", spec: "schedulerName: volcano"},
}

const nearNobodyRequired = `affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: nobody}}}]}}`

const nearNobodyPreferred = `affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: nobody}}}}]}}`

const besideFirstAnyway = `topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchExpressions: [{key: app, operator: In, values: [first, spread]}]}}]`
