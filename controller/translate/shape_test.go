package translate

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/engine/model"
)

// podFrom parses a pod's spec; the pod is shop/web-1 with the labels app=web and ver=2.
func podFrom(t *testing.T, spec string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web-1", UID: "pod-uid",
		Labels: map[string]string{"ver": "2", "app": "web"},
	}}
	if err := yaml.UnmarshalStrict([]byte(spec), &pod.Spec); err != nil {
		t.Fatal(err)
	}
	return pod
}

// words formats a selector.
func words(s model.Selector) string {
	out := "in " + strings.Join(s.Namespaces, "+")
	if s.InMatching {
		out += " and namespaces (" + s.NamespaceLabels.String() + ")"
	}
	if s.Nothing {
		return out + ": nothing"
	}
	return out + ": " + s.Labels.String()
}

func TestShapesSeeEachOther(t *testing.T) {
	n := NewNames()
	s := n.Shape(podFrom(t, "{}"), nil)
	if s.Namespace != "shop" ||
		!reflect.DeepEqual(s.Labels, []model.Label{{Key: "app", Value: "web"}, {Key: "ver", Value: "2"}}) {
		t.Errorf("got %+v", s)
	}
	got := Namespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   "shop",
		Labels: map[string]string{"b": "1", "a": "2"},
	}})
	if want := (model.Namespace{
		Name:   "shop",
		Labels: []model.Label{{Key: "a", Value: "2"}, {Key: "b", Value: "1"}},
	}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

func TestTermsOfPodAffinity(t *testing.T) {
	for name, c := range map[string]struct{ term, want string }{
		"its own namespace if none is named": {`labelSelector: {matchLabels: {app: web}}`, "in shop: app In [web]"},
		"the named ones, sorted": {
			`{namespaces: [b, a, b], labelSelector: {matchLabels: {app: web}}}`,
			"in a+b: app In [web]",
		},
		"an empty selector of namespaces is all": {
			`{namespaceSelector: {}, labelSelector: {matchLabels: {app: web}}}`,
			"in  and namespaces (): app In [web]",
		},
		"those that match and those that are named": {`{namespaces: [a], namespaceSelector: {matchLabels: {team: x}}, labelSelector: {}}`, "in a and namespaces (team In [x]): "},
		"no selector matches nothing":               {`{}`, "in shop: nothing"},
		"not even with keys":                        {`matchLabelKeys: [ver]`, "in shop: nothing"},
		"an empty one matches everything":           {`labelSelector: {}`, "in shop: "},
		"the same value as the pod":                 {`{labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [ver, none]}`, "in shop: app In [web], ver In [2]"},
		"another one than the pod": {
			`{labelSelector: {}, mismatchLabelKeys: [ver]}`,
			"in shop: ver NotIn [2]",
		},
		"merged twice is merged once":          {`{labelSelector: {matchExpressions: [{key: ver, operator: In, values: ["2"]}]}, matchLabelKeys: [ver]}`, "in shop: ver In [2]"},
		"all operators":                        {`labelSelector: {matchExpressions: [{key: a, operator: Exists}, {key: b, operator: DoesNotExist}, {key: c, operator: NotIn, values: [x]}]}`, "in shop: a Exists, b DoesNotExist, c NotIn [x]"},
		"a label that is there and is not one": {`labelSelector: {matchExpressions: [{key: a, operator: Exists}, {key: a, operator: NotIn, values: [x]}]}`, "in shop: a Exists and NotIn [x]"},
		"beta names are node labels', not pod labels'": {
			`labelSelector: {matchLabels: {beta.kubernetes.io/arch: arm64}}`,
			"in shop: beta.kubernetes.io/arch In [arm64]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var term corev1.PodAffinityTerm
			if err := yaml.UnmarshalStrict([]byte(c.term), &term); err != nil {
				t.Fatal(err)
			}
			term.TopologyKey = "failure-domain.beta.kubernetes.io/zone"
			pod := podFrom(t, "{}")
			terms := []corev1.PodAffinityTerm{term}
			pod.Spec.Affinity = &corev1.Affinity{
				PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms},
				PodAntiAffinity: &corev1.PodAntiAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: terms,
					PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
						Weight:          7,
						PodAffinityTerm: term,
					}},
				},
			}
			s := NewNames().Shape(pod, nil)
			if len(s.Unmodelled) != 0 || s.Affinity[0].Topology != model.LabelZone ||
				!reflect.DeepEqual(s.Affinity, s.AntiAffinity) {
				t.Fatalf("got %+v", s)
			}
			if got := words(s.Affinity[0].Pods); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if p := s.PreferredPods; len(p) != 1 || p[0].Weight != -7 || !reflect.DeepEqual(p[0].PodTerm, s.Affinity[0]) {
				t.Errorf("preferred: %+v", p)
			}
		})
	}
}

func TestSpread(t *testing.T) {
	s := NewNames().Shape(podFrom(t, `
topologySpreadConstraints:
- {topologyKey: zone, maxSkew: 2, minDomains: 3, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [ver]}
- {topologyKey: kubernetes.io/hostname, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway, nodeAffinityPolicy: Ignore, nodeTaintsPolicy: Honor, labelSelector: {}}
- {topologyKey: rack, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, nodeAffinityPolicy: Honor, nodeTaintsPolicy: Ignore}
`), nil)
	if len(s.Spread) != 3 || len(s.Unmodelled) != 0 {
		t.Fatalf("got %+v", s)
	}
	for i, want := range []string{
		"zone 2 3 true false false in shop: app In [web], ver In [2]",
		"kubernetes.io/hostname 1 0 false true true in shop: nothing", // as kube-scheduler counts
		"rack 1 0 true false false in shop: nothing",
	} {
		c := s.Spread[i]
		if got := fmt.Sprint(c.Topology, " ", c.MaxSkew, " ", c.MinDomains, " ", c.Hard, " ", c.AnyNode, " ", c.Untainted,
			" ", words(c.Pods)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestHostPorts(t *testing.T) {
	s := NewNames().Shape(podFrom(t, `
initContainers:
- {name: once, ports: [{containerPort: 1, hostPort: 1}]}
- {name: sidecar, restartPolicy: Always, ports: [{containerPort: 9, hostPort: 9, protocol: UDP}]}
containers:
- {name: a, ports: [{containerPort: 80, hostPort: 8080, hostIP: 10.0.0.1}, {containerPort: 81}]}
- {name: b, ports: [{containerPort: 80, hostPort: 80, protocol: TCP}]}
`), nil)
	want := []model.HostPort{
		{IP: "0.0.0.0", Protocol: "UDP", Port: 9},
		{IP: "0.0.0.0", Protocol: "TCP", Port: 80},
		{IP: "10.0.0.1", Protocol: "TCP", Port: 8080},
	}
	if !reflect.DeepEqual(s.HostPorts, want) {
		t.Errorf("got %+v", s.HostPorts)
	}
}

func TestNodeAffinityAsTheSchedulerReadsIt(t *testing.T) {
	for name, c := range map[string]struct{ terms, required, anyOf, unmodelled string }{
		"by name": {
			`[{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]`,
			"field:metadata.name In [n1]", "", "",
		},
		"by label and name":   {`[{matchExpressions: [{key: a, operator: Exists}], matchFields: [{key: metadata.name, operator: NotIn, values: [n1]}]}]`, "a Exists, field:metadata.name NotIn [n1]", "", ""},
		"an empty term":       {`[{}, {matchExpressions: [{key: a, operator: Exists}]}]`, "a Exists", "", ""},
		"only empty terms":    {`[{}]`, "field:metadata.name In []", "", ""},
		"one that is no term": {`[{matchExpressions: [{key: a, operator: Gt, values: [x]}]}, {matchExpressions: [{key: b, operator: Exists}]}]`, "b Exists", "", ""},
		"only such": {
			`[{matchExpressions: [{key: a, operator: Gt, values: [x]}]}]`, "", "",
			`nodeAffinity: requirement a Gt "x": not an integer`,
		},
		"several on one key": {`[{matchExpressions: [{key: a, operator: In, values: [x, z]}, {key: a, operator: NotIn, values: [x]}]}]`, "a In [z]", "", ""},
		"a contradiction": {
			`[{matchExpressions: [{key: a, operator: Exists}, {key: a, operator: DoesNotExist}]}]`,
			"a In []", "", "",
		},
		"one of two": {`[{matchExpressions: [{key: b, operator: Exists}]}, {matchExpressions: [{key: a, operator: Exists}]}]`, "", "a Exists; b Exists", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewNames().Shape(podFrom(t,
				`affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: `+c.terms+`}}}`),
				nil)
			var anyOf []string
			for _, term := range s.AnyOf {
				anyOf = append(anyOf, term.String())
			}
			if s.Required.String() != c.required || strings.Join(anyOf, "; ") != c.anyOf ||
				strings.Join(s.Unmodelled, "; ") != c.unmodelled {
				t.Errorf("got %s | %v | %v", s.Required, anyOf, s.Unmodelled)
			}
		})
	}
}

// kube-scheduler does not read spec.os, but the kubelet of another system refuses the pod.
func TestTheOperatingSystemIsRequired(t *testing.T) {
	for spec, want := range map[string]string{
		`{os: {name: windows}}`:                                            "kubernetes.io/os In [windows]",
		`{os: {name: linux}, nodeSelector: {a: b}}`:                        "a In [b], kubernetes.io/os In [linux]",
		`{os: {name: windows}, nodeSelector: {kubernetes.io/os: windows}}`: "kubernetes.io/os In [windows]",
		`{}`: "",
	} {
		if got := NewNames().Shape(podFrom(t, spec), nil).Required.String(); got != want {
			t.Errorf("%s requires %q, want %q", spec, got, want)
		}
	}
}

func TestDaemonsPodsAreOneShape(t *testing.T) {
	on := func(node string) *corev1.Pod {
		pod := podFrom(t, `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [`+node+`]}]}]}}}`)
		yes := true
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: &yes}}
		return pod
	}
	n := NewNames()
	if a, b := n.Shape(on("a"), nil), n.Shape(on("b"), nil); a.Key != b.Key || len(a.Required) != 0 {
		t.Errorf("got %s and %s", a.Key, b.Key)
	}
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "d"}}
	ds.Spec.Template.Labels = map[string]string{"k8s-app": "d"}
	ds.Spec.Template.Spec.HostNetwork = true
	ds.Spec.Template.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 9100}}}}
	ds.Spec.Template.Spec.Affinity = on("a").Spec.Affinity
	d := n.Daemon(ds, nil)
	if d.Shape.Namespace != "kube-system" || len(d.Shape.Labels) != 1 || len(d.Shape.HostPorts) != 1 ||
		d.Shape.HostPorts[0].Port != 9100 || ds.Spec.Template.Spec.Containers[0].Ports[0].HostPort != 0 {
		t.Errorf("got %+v", d.Shape)
	}
	if !RunsOn(&d, &model.Node{Name: "a", State: model.Initialized}) ||
		RunsOn(&d, &model.Node{Name: "b", State: model.Initialized}) || RunsOn(&d, &model.Node{Name: "c"}) {
		t.Error("a DaemonSet for node a")
	}
}

func TestPodLevelResourcesCount(t *testing.T) {
	s := NewNames().Shape(podFrom(t, `
resources: {requests: {cpu: "3"}}
containers: [{name: a, resources: {requests: {cpu: "1", memory: 1Gi}}}, {name: b, resources: {requests: {cpu: "1"}}}]
`), nil)
	if s.Requests[model.CPU] != 3000 || s.Requests[model.Memory] != 1<<30 {
		t.Errorf("got %v", s.Requests)
	}
}

// A pod with limits as a whole requests of each resource what its containers request together or, if they request
// nothing, the limit.
func TestTemplatesWithPodLevelLimits(t *testing.T) {
	for template, want := range map[string]model.Resources{
		`{resources: {limits: {cpu: "3"}}, containers: [{name: a}]}`: {model.CPU: 3000},
		`{resources: {limits: {cpu: "3", memory: 2Gi}}, containers: [{name: a, resources: {requests: {cpu: "1"}}},
			{name: b, resources: {limits: {cpu: "1"}}}]}`: {model.CPU: 2000, model.Memory: 2 << 30},
		`{resources: {limits: {cpu: "3"}, requests: {cpu: 500m}}, containers: [{name: a}]}`: {model.CPU: 500},
		`{resources: {requests: {cpu: 500m}}, containers: [{name: a}]}`:                     {model.CPU: 500},
	} {
		pod := podFrom(t, template)
		pod.Spec = AsCreated(&pod.Spec, nil)
		if got := NewNames().Shape(pod, nil).Requests; got[model.CPU] != want[model.CPU] ||
			got[model.Memory] != want[model.Memory] {
			t.Errorf("%s requests %v", template, got)
		}
	}
}

func TestNothingOfAShapeIsMissingFromItsKey(t *testing.T) {
	r := model.Requirements{model.OneOf("k", "v")}
	sel := model.Selector{Namespaces: []string{"a"}, Labels: r}
	whole := model.Shape{
		Requests: model.Resources{model.CPU: 1}, Required: r, AnyOf: []model.Requirements{r, r},
		Preferred:   []model.Preference{{Weight: 1, Terms: r}},
		Tolerations: []model.Toleration{{Key: "k", Value: "v", Exists: true, Effect: model.NoExecute}},
		Namespace:   "a", Labels: []model.Label{{Key: "k", Value: "v"}},
		Affinity: []model.PodTerm{{Topology: "t", Pods: sel}}, AntiAffinity: []model.PodTerm{{Topology: "t", Pods: sel}},
		PreferredPods: []model.PodPreference{{Weight: 1, PodTerm: model.PodTerm{Topology: "t", Pods: sel}}},
		Spread: []model.Spread{{
			Topology: "t", MaxSkew: 1, MinDomains: 1, Hard: true, Pods: sel, AnyNode: true,
			Untainted: true,
		}},
		HostPorts: []model.HostPort{{IP: "i", Protocol: "p", Port: 1}},
		Volumes:   []model.Volume{{ID: "i", Driver: "d", Topology: []model.Requirements{r}, Alone: true}},
		Blocked:   "b", Unmodelled: []string{"u"},
	}
	whole.Affinity[0].Pods.InMatching, whole.Affinity[0].Pods.NamespaceLabels, whole.Affinity[0].Pods.Nothing = true,
		r, true
	n := NewNames()
	key := n.shapeKey(&whole)
	var without func(path string, v reflect.Value)
	without = func(path string, v reflect.Value) {
		was := reflect.New(v.Type()).Elem()
		was.Set(v)
		v.SetZero()
		if !was.IsZero() && n.shapeKey(&whole) == key {
			t.Errorf("%s makes no difference", path)
		}
		v.Set(was)
		switch {
		case v.Type() == reflect.TypeFor[model.Requirements](), v.Type() == reflect.TypeFor[model.Resources]():
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				without(path+"."+v.Type().Field(i).Name, v.Field(i))
			}
		case v.Kind() == reflect.Slice && v.Len() > 0:
			without(path+"[0]", v.Index(0))
		}
	}
	shape := reflect.ValueOf(&whole).Elem()
	for i := range shape.NumField() {
		if f := shape.Type().Field(i); f.Name != "Key" && f.Name != "Original" { // the engine sets Original, in copies
			if shape.Field(i).IsZero() {
				t.Errorf("the test says nothing of %s", f.Name)
			}
			without(f.Name, shape.Field(i))
		}
	}
}

func TestAClaimThatMustBeThereAndNotX(t *testing.T) {
	present := model.Requirement{Key: "example.com/k", Complement: true, Values: []string{"true"}, Present: true}
	impossible := model.Requirement{Key: "example.com/no", Present: true}
	got := customLabels(model.NewRequirements(present, impossible, noNode), nil)
	if v := got["example.com/k"]; v == "" || v == "true" || len(got) != 1 {
		t.Errorf("got %v", got)
	}
	if rs := claimable(model.NewRequirements(present,
		model.Requirement{Key: model.NodeNameField, Complement: true, Values: []string{"n"}})); len(rs) != 1 {
		t.Errorf("got %s", rs)
	}
}

func BenchmarkShape(b *testing.B) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop",
		Labels:    map[string]string{"app": "web", "pod-template-hash": "abc", "ver": "2"},
	}}
	pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}
	n := NewNames()
	for b.Loop() {
		n.Shape(pod, nil)
	}
}

// The requests of a DaemonSet's pods are those that the API server derives from their template, and a node needs
// capacity for them.
func TestDaemonsAskForWhatTheirLimitsAndTheNamespacesDefaultsSay(t *testing.T) {
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "d"}}
	ds.Spec.Template.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
	}}}
	defaults := &corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
		{Type: corev1.LimitTypePod, Default: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("9")}},
		{Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("7Gi"),
		}},
	}}}
	n := NewNames()
	if got := n.Daemon(ds, nil).Shape.Requests; got[model.CPU] != 0 || got[model.Memory] != 1<<30 {
		t.Errorf("without a LimitRange: %v", got)
	}
	if got := n.Daemon(ds, []*corev1.LimitRange{defaults}).Shape.Requests; got[model.CPU] != 2000 ||
		got[model.Memory] != 1<<30 {
		t.Errorf("with a LimitRange: %v", got)
	}
	if len(ds.Spec.Template.Spec.Containers[0].Resources.Requests) > 0 {
		t.Error("the template was changed")
	}
}

// The environment of the VPC CNI decides which addresses nodes have, so LeanContainers keeps it. It drops values from
// Secrets and other variables.
func TestTheEnvironmentOfTheCNIStays(t *testing.T) {
	from := &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "k"}}
	env := []corev1.EnvVar{
		{Name: "WARM_IP_TARGET", Value: "2"}, {Name: "TOKEN", Value: "x"}, {Name: "MAX_ENI", ValueFrom: from},
	}
	list := []corev1.Container{{Name: "aws-node", Env: env}, {Name: "app", Env: env}}
	LeanContainers(list)
	if len(list[0].Env) != 1 || list[0].Env[0].Value != "2" || list[1].Env != nil {
		t.Errorf("left: %v and %v", list[0].Env, list[1].Env)
	}
}
