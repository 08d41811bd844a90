package translate

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const zoneSpread = `{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}`

func profileOf(args string) string {
	return `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig: [{name: PodTopologySpread, args: ` + args + `}]
- schedulerName: batch
`
}

func pluginOf(name, args string) string {
	return strings.Replace(profileOf(args), "name: PodTopologySpread", "name: "+name, 1)
}

func TestSchedulerConfigsAreRead(t *testing.T) {
	for name, tc := range map[string]struct {
		document string
		names    string
		spread   int // number of default constraints of default-scheduler
	}{
		"nothing":     {"", "default-scheduler", 0},
		"Karpenter's": {"podTopologySpread: {defaultConstraints: [" + zoneSpread + "]}", "default-scheduler", 1},
		"profiles": {
			profileOf("{defaultingType: List, defaultConstraints: [" + zoneSpread + "]}"), "batch,default-scheduler", 1,
		},
		"the system's defaults": {profileOf("{defaultingType: System}"), "batch,default-scheduler", 0},
		"no profiles": {
			"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n", "default-scheduler", 0,
		},
		"arguments that change no filter": {
			pluginOf("NodeResourcesFit", "{scoringStrategy: {type: MostAllocated}}"), "batch,default-scheduler", 0,
		},
		"the plugin is off": {
			strings.Replace(profileOf("{defaultingType: List, defaultConstraints: ["+zoneSpread+"]}"), "- pluginConfig",
				"- plugins: {multiPoint: {disabled: [{name: PodTopologySpread}]}}\n  pluginConfig", 1),
			"batch,default-scheduler", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := ParseSchedulerConfig([]byte(tc.document))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(c.Names(), ","); got != tc.names {
				t.Errorf("profiles %s, want %s", got, tc.names)
			}
			if got := c.DefaultSpread(&corev1.Pod{}); len(got) != tc.spread || c.Spreads() != (tc.spread > 0) {
				t.Errorf("default constraints %v, want %d", got, tc.spread)
			}
			own := &corev1.Pod{Spec: corev1.PodSpec{TopologySpreadConstraints: make([]corev1.TopologySpreadConstraint, 1)}}
			if got := c.DefaultSpread(own); len(got) > 0 {
				t.Errorf("a pod with constraints of its own gets %v", got)
			}
		})
	}
}

func TestBadSchedulerConfigsNameTheField(t *testing.T) {
	for document, want := range map[string]string{
		"podTopologySpread: {defaultConstraints: [{maxSkew: 0, topologyKey: 'a b', whenUnsatisfiable: Never}]}": "podTopologySpread.defaultConstraints[0].maxSkew",
		"podTopologySpread: {defaultConstraints: [" + zoneSpread + "," + zoneSpread + "]}":                      "defaultConstraints[1]: Duplicate value",
		"podTopologySpread: {constraints: []}":                                                                  `unknown field "constraints"`,
		"apiVersion: v1\nkind: Pod":                                                                             "use kubescheduler.config.k8s.io/v1",
		profileOf("{defaultConstraints: [" + zoneSpread + "]}"):                                                 "profiles[0].pluginConfig[0].args.defaultingType",
		profileOf("{defaultingTyp: List}"):                                                                      "profiles[0].pluginConfig[0].args",
		strings.Replace(profileOf("{}"), "schedulerName: batch", "schedulerName: default-scheduler", 1):         "profiles[1].schedulerName",
		profileOf("{defaultingType: List, defaultConstraints: [" +
			strings.Replace(zoneSpread, "}", ", labelSelector: {}}", 1) + "]}"): "labelSelector: Forbidden",
		": :": "",
		pluginOf("NodeAffinity", "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}"): "profiles[0].pluginConfig[0].args.addedAffinity: Forbidden",
		pluginOf("NodeResourcesFit", "{ignoredResources: [example.com/a]}"):                                                    "profiles[0].pluginConfig[0].args.ignoredResources: Forbidden",
		pluginOf("NodeResourcesFit", "{ignoredResourceGroups: [example.com]}"):                                                 "profiles[0].pluginConfig[0].args.ignoredResourceGroups: Forbidden",
		pluginOf("NodeResourcesFit", "{ignored: 1}"):                                                                           `unknown field "ignored"`,
		"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" +
			"extenders: [{urlPrefix: a, managedResources: [{name: a/b}, {name: a/c, ignoredByScheduler: true}]}]": "extenders[0].managedResources[1].ignoredByScheduler: Forbidden",
	} {
		_, err := ParseSchedulerConfig([]byte(document))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", document, err, want)
		}
	}
}

func TestDefaultSelectorsAreThoseOfServicesAndControllers(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Labels: map[string]string{"app": "web", "tier": "x"}}}
	service := func(namespace string, selector map[string]string) *corev1.Service {
		return &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: corev1.ServiceSpec{Selector: selector},
		}
	}
	others := []*corev1.Service{
		service("a", nil), service("b", map[string]string{"app": "web"}), service("a", map[string]string{"app": "db"}),
	}
	if got := DefaultSelector(pod, slices.Values(others), nil); got != nil {
		t.Errorf("the selector of a pod without Services is %v", got)
	}
	all := append(others, service("a", map[string]string{"app": "web"}))
	controller := &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "x"}}
	if got := metav1.FormatLabelSelector(DefaultSelector(pod, slices.Values(all), controller)); got != "app=web,tier=x" {
		t.Errorf("the selector is %s", got)
	}
}
