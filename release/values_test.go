package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"sigs.k8s.io/yaml"
)

var digest = "sha256:" + strings.Repeat("a", 64)

// valueCases lists values of the chart with words that the rendered objects then contain, or, after a "!", do not.
var valueCases = map[string][]string{
	"serviceAccount: {name: karpenter, annotations: {eks.amazonaws.com/role-arn: arn:aws:iam::1:role/k}}": {
		"serviceAccountName: karpenter", "eks.amazonaws.com/role-arn: arn:aws:iam::1:role/k",
	},
	"serviceAccount: {create: false, name: given}": {
		"serviceAccountName: given", "!apiVersion: v1\nkind: ServiceAccount\n",
	},
	"controller: {image: {repository: r.example/c, tag: v9, digest: '" + digest + "'}}": {
		"image: r.example/c:v9@" + digest,
	},
	"controller: {env: [{name: AWS_REGION, value: eu-west-1}]}":    {"name: AWS_REGION"},
	"controller: {envFrom: [{configMapRef: {name: more}}]}":        {"envFrom:"},
	"controller: {resources: {limits: {memory: 1Gi}}}":             {"memory: 1Gi"},
	"controller: {securityContext: {seLinuxOptions: {level: s0}}}": {"level: s0", "readOnlyRootFilesystem: true"},
	"controller: {securityContext: {appArmorProfile: {type: RuntimeDefault}}}": {
		"appArmorProfile:\n              type: RuntimeDefault",
	},
	"controller: {securityContext: {seccompProfile: {type: Unconfined}}}": {
		"seccompProfile:\n              type: Unconfined",
	},
	"podSecurityContext: {fsGroup: 2000}": {"fsGroup: 2000"},
	"{extraVolumes: [{name: v, emptyDir: {}}], controller: {extraVolumeMounts: [{name: v, mountPath: /v}]}}": {
		"name: v", "mountPath: /v",
	},
	"controller: {sidecarContainer: [{name: side, image: s}], sidecarVolumeMounts: [{name: tmp, mountPath: /side}]}": {
		"name: side", "mountPath: /side",
	},
	"controller: {containerName: karpenter}": {"name: karpenter\n", "containerName: karpenter"},
	"controller: {metrics: {port: 9090}}":    {"containerPort: 9090", `METRICS_PORT, value: "9090"`},
	"controller: {healthProbe: {port: 9091}}": {
		"containerPort: 9091", `HEALTH_PROBE_PORT, value: "9091"`,
	},
	"{nameOverride: karpenter, fullnameOverride: karp}": {
		"app.kubernetes.io/name: karpenter", "name: karp",
	},
	"{additionalLabels: {team: a}, additionalAnnotations: {x: z}}": {
		"team: a", "x: z",
	},
	"{podLabels: {p: q}, podAnnotations: {r: s}}": {"p: q", "r: s"},
	"imagePullSecrets: [{name: pull}]":            {"imagePullSecrets:", "name: pull"},
	"imagePullPolicy: Always":                     {"imagePullPolicy: Always"},
	"service: {annotations: {a: b}}":              {"a: b"},
	"additionalClusterRoleRules: [{apiGroups: [x.example], resources: ['*'], verbs: [get]}]": {
		"x.example",
	},
	"{replicas: 1, revisionHistoryLimit: 3}":                      {"replicas: 1", "revisionHistoryLimit: 3"},
	"strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 2}}": {"maxUnavailable: 0", "maxSurge: 2"},
	"podDisruptionBudget: {name: karpenter, maxUnavailable: 2}":   {"maxUnavailable: 2"},
	"podDisruptionBudget: {minAvailable: 1, unhealthyPodEvictionPolicy: AlwaysAllow}": {
		"minAvailable: 1", "unhealthyPodEvictionPolicy: AlwaysAllow", "!maxUnavailable: 1\n  min",
	},
	"priorityClassName: high":           {"priorityClassName: high"},
	"terminationGracePeriodSeconds: 60": {"terminationGracePeriodSeconds: 60"},
	"hostNetwork: true":                 {"hostNetwork: true"},
	"schedulerName: mine":               {"schedulerName: mine"},

	"{dnsPolicy: Default, dnsConfig: {options: [{name: ndots}]}}": {"dnsPolicy: Default", "name: ndots"},
	"initContainers: [{name: first, image: i}]":                   {"initContainers:", "name: first"},
	"nodeSelector: {disk: fast}":                                  {"disk: fast"},
	"affinity: {podAntiAffinity: null, nodeAffinity: null}":       {"!podAntiAffinity", "!karpenter.sh/nodepool\n"},
	"topologySpreadConstraints: [{maxSkew: 2, topologyKey: rack, whenUnsatisfiable: ScheduleAnyway}]": {
		"maxSkew: 2", "topologyKey: rack", "!topologyKey: topology.kubernetes.io/zone",
	},
	"tolerations: [{key: only, operator: Exists}]": {"key: only"},
	"{logLevel: debug, logFormat: text}": {
		`LOG_LEVEL, value: "debug"`, `NODELESS_LOG_FORMAT, value: "text"`,
	},
	"{logOutputPaths: [stdout, /tmp/log], logErrorOutputPaths: [stderr, /tmp/errors]}": {
		`LOG_OUTPUT_PATHS, value: "stdout,/tmp/log"`, `LOG_ERROR_OUTPUT_PATHS, value: "stderr,/tmp/errors"`,
	},
	"leaderElection: {namespace: karpenter}": {
		"namespace: karpenter", `LEADER_ELECTION_NAMESPACE, value: "karpenter"`,
	},
	"leaderElection: {name: mine}": {`LEADER_ELECTION_NAME, value: "mine"`, "- mine\n"},
	"page: {enabled: true, tlsSecretName: cert, port: 9443}": {
		"0.0.0.0:9443", "containerPort: 9443", "/etc/nodeless/page/tls.crt", "tokenreviews",
	},
	"{fullnameOverride: karp, fargate: {enabled: true}}": {
		`KARPENTER_SERVICE, value: "karp"`, "https://karp.kube-system.svc",
	},
	"fargate: {enabled: true, webhookPort: 9444}": {
		"https://nodeless.kube-system.svc", "kubernetes.io/kubelet-serving", "containerPort: 9444",
		`NODELESS_FARGATE_WEBHOOK_PORT, value: "9444"`,
	},
	"networkPolicy: {enabled: false}":                  {"!kind: NetworkPolicy"},
	"rbac: {surge: true}":                              {"deployments"},
	"rbac: {nodeGroups: true}":                         {"nodegroups"},
	"rbac: {view: false}":                              {"!nodeless-view", "!aggregate-to-admin"},
	"settings: {clusterName: '{{ .Release.Name }}-x'}": {`CLUSTER_NAME, value: "nodeless-x"`},
	"dashboards: {enabled: true, namespace: grafana, labels: {mine: '1'}, annotations: {grafana_folder: Nodes}}": {
		"name: nodeless-dashboard-capacity", "name: nodeless-dashboard-controller", "namespace: grafana", `mine: "1"`,
		`grafana_dashboard: "1"`, "grafana_folder: Nodes", `"legendFormat": "{{nodepool}}"`,
	},
	"serviceMonitor: {enabled: true, additionalLabels: {release: p}, sampleLimit: 9, endpointConfig: {interval: 5s}}": {
		"kind: ServiceMonitor", "release: p", "sampleLimit: 9", "interval: 5s",
	},
	"serviceMonitor: {enabled: true, relabelings: [{action: drop}], metricRelabelings: [{action: keep}]}": {
		"relabelings:\n        - action: drop", "metricRelabelings:\n        - action: keep",
	},
}

// settingCases lists values of a setting with the environment variable that they become.
var settingCases = map[string]string{
	"clusterEndpoint: https://api.example":          `CLUSTER_ENDPOINT, value: "https://api.example"`,
	"clusterCABundle: Q0E=":                         `CLUSTER_CA_BUNDLE, value: "Q0E="`,
	"eksControlPlane: true":                         `EKS_CONTROL_PLANE, value: "true"`,
	"isolatedVPC: true":                             `ISOLATED_VPC, value: "true"`,
	"interruptionQueue: queue":                      `INTERRUPTION_QUEUE, value: "queue"`,
	"waitPrice: 1.5":                                `NODELESS_WAIT_PRICE, value: "1.5"`,
	"movePrice: 0":                                  `NODELESS_MOVE_PRICE, value: "0"`,
	"nodeFee: 0.02":                                 `NODELESS_NODE_FEE, value: "0.02"`,
	"preferencePrice: 0.1":                          `NODELESS_PREFERENCE_PRICE, value: "0.1"`,
	"priorityCutoff: -10":                           `NODELESS_PRIORITY_CUTOFF, value: "-10"`,
	"priorityCutoff: 1000000":                       `NODELESS_PRIORITY_CUTOFF, value: "1000000"`,
	"priorityCutoff: -2147483648":                   `NODELESS_PRIORITY_CUTOFF, value: "-2147483648"`,
	"preflight: enforce":                            `NODELESS_PREFLIGHT, value: "enforce"`,
	"batchIdleDuration: 1s":                         `BATCH_IDLE_DURATION, value: "1s"`,
	"batchMaxDuration: 10s":                         `BATCH_MAX_DURATION, value: "10s"`,
	"preferencePolicy: Respect":                     `PREFERENCE_POLICY, value: "Respect"`,
	"minValuesPolicy: BestEffort":                   `MIN_VALUES_POLICY, value: "BestEffort"`,
	"vmMemoryOverheadPercent: 0.05":                 `VM_MEMORY_OVERHEAD_PERCENT, value: "0.05"`,
	"reservedENIs: 1":                               `RESERVED_ENIS, value: "1"`,
	"enableZonalShift: true":                        `ENABLE_ZONAL_SHIFT, value: "true"`,
	"ignoreDRARequests: true":                       `IGNORE_DRA_REQUESTS, value: "true"`,
	"disableClusterStateObservability: true":        `DISABLE_CLUSTER_STATE_OBSERVABILITY, value: "true"`,
	"disableDryRun: true":                           `DISABLE_DRY_RUN, value: "true"`,
	"amiRefreshInterval: 5m":                        `AMI_REFRESH_INTERVAL, value: "5m"`,
	"subnetRefreshInterval: 5m":                     `SUBNET_REFRESH_INTERVAL, value: "5m"`,
	"featureGates: {nodeRepair: true}":              "NodeRepair=true",
	"featureGates: {nodeOverlay: true}":             "NodeOverlay=true",
	"featureGates: {reservedCapacity: false}":       "ReservedCapacity=false",
	"featureGates: {spotToSpotConsolidation: true}": "SpotToSpotConsolidation=true",
	"featureGates: {staticCapacity: true}":          "StaticCapacity=true",
	"featureGates: {capacityBuffer: true}":          "CapacityBuffer=true",
}

// allCases returns valueCases and settingCases, each with the name of the cluster, which has no default.
func allCases(t *testing.T) map[string][]string {
	out := map[string][]string{}
	for values, want := range valueCases {
		out[withCluster(t, values)] = want
	}
	for setting, want := range settingCases {
		out[withCluster(t, "settings: {"+setting+"}")] = []string{want}
	}
	return out
}

// Each value has the effect that it documents. The words are searched for in everything that is rendered.
func TestEachValueOfTheChart(t *testing.T) {
	c := controllerChartForTest(t)
	for values, want := range allCases(t) {
		files, err := tryRender(c, values)
		if err != nil {
			t.Errorf("%s: %v", values, err)
			continue
		}
		render(t, c, values)
		all := strings.Join(slices.Collect(maps.Values(files)), "\n")
		for _, w := range want {
			absent, not := strings.CutPrefix(w, "!")
			if strings.Contains(all, absent) == not {
				t.Errorf("%s: %q, and it is there: %v", values, w, not)
			}
		}
	}
}

// A value that no case gives is one that the chart may ignore.
func TestEachValueOfTheChartHasACase(t *testing.T) {
	c := controllerChartForTest(t)
	var given []map[string]any
	for values := range allCases(t) {
		var v map[string]any
		if err := yaml.Unmarshal([]byte(values), &v); err != nil {
			t.Fatal(err)
		}
		given = append(given, v)
	}
	for _, path := range valuesOf(t, c) {
		if !slices.ContainsFunc(given, func(v map[string]any) bool { return has(v, path) }) {
			t.Errorf("no case gives %s", strings.Join(path, "."))
		}
	}
}

// has reports whether values have something at a path.
func has(values map[string]any, path []string) bool {
	v, found := values[path[0]]
	if len(path) == 1 || !found {
		return found
	}
	inner, _ := v.(map[string]any)
	return has(inner, path[1:])
}

// valuesOf returns the paths of all values that the chart's schema describes, and of its feature gates. All values of
// values.yaml are among them, since the schema refuses others.
func valuesOf(t *testing.T, c *chart.Chart) (out [][]string) {
	t.Helper()
	type object struct{ Properties map[string]json.RawMessage }
	var walk func(path []string, text json.RawMessage)
	walk = func(path []string, text json.RawMessage) {
		var o object
		if err := json.Unmarshal(text, &o); err != nil {
			t.Fatal(err)
		}
		for name, inner := range o.Properties {
			walk(append(slices.Clone(path), name), inner)
		}
		if len(o.Properties) == 0 {
			out = append(out, path)
		}
	}
	walk(nil, c.Schema)
	out = slices.DeleteFunc(out, func(p []string) bool { return p[0] == "global" }) // Helm's own
	gates := []string{"settings", "featureGates"}
	for gate := range c.Values["settings"].(map[string]any)["featureGates"].(map[string]any) {
		out = append(out, append(slices.Clone(gates), gate))
	}
	slices.SortFunc(out, slices.Compare[[]string])
	return out
}
