package why

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/engine/model"
)

// applied applies the operations to a document, as RFC 6902 says; a test operation only requires equal values.
func applied(t *testing.T, doc any, ops []Op) any {
	t.Helper()
	for _, o := range ops {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		var step struct {
			Op, Path string
			Value    any
		}
		if err := json.Unmarshal(text, &step); err != nil {
			t.Fatal(err)
		}
		if doc, err = at(doc, strings.Split(step.Path, "/")[1:], step.Op, step.Value); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return doc
}

// at applies one operation at a path below a value.
func at(in any, path []string, op string, value any) (any, error) {
	word := strings.NewReplacer("~1", "/", "~0", "~").Replace(path[0])
	switch in := in.(type) {
	case map[string]any:
		old, there := in[word]
		if len(path) > 1 {
			now, err := at(old, path[1:], op, value)
			in[word] = now
			return in, err
		}
		switch {
		case op != "add" && !there, op == "test" && fmt.Sprint(old) != fmt.Sprint(value):
			return in, fmt.Errorf("%s: is %v", word, old)
		case op == "remove":
			delete(in, word)
		case op != "test":
			in[word] = value
		}
		return in, nil
	case []any:
		if word == "-" && op == "add" && len(path) == 1 {
			return append(in, value), nil
		}
		i, err := strconv.Atoi(word)
		switch {
		case err != nil || i >= len(in):
			return in, fmt.Errorf("%s of a list of %d", word, len(in))
		case op == "remove" && len(path) == 1:
			return slices.Delete(in, i, i+1), nil
		case op == "test" && len(path) == 1 && fmt.Sprint(in[i]) == fmt.Sprint(value):
			return in, nil
		case len(path) == 1:
			return in, fmt.Errorf("%s: is %v", word, in[i])
		}
		in[i], err = at(in[i], path[1:], op, value)
		return in, err
	}
	return in, fmt.Errorf("%s of nothing", word)
}

// Each change that a pod's owner can make: the specification before and after it.
var edits = map[string]struct {
	change     model.Change
	spec, want string
}{
	"the first toleration": {
		model.Change{Rule: model.RuleTaint, Object: "gpu=true:NoSchedule"},
		`{}`, `{tolerations: [{key: gpu, value: "true", effect: NoSchedule}]}`,
	},
	"one toleration more": {
		model.Change{Rule: model.RuleTaint, Object: "gpu:NoExecute"},
		`{tolerations: [{key: a, operator: Exists}]}`,
		`{tolerations: [{key: a, operator: Exists}, {key: gpu, operator: Exists, effect: NoExecute}]}`,
	},
	"another value in nodeSelector, under an old name": {
		model.Change{Rule: model.RuleRequirement, Object: model.LabelArch, From: "s390x", To: "amd64"},
		`{nodeSelector: {beta.kubernetes.io/arch: s390x, b: c}}`, `{nodeSelector: {beta.kubernetes.io/arch: amd64, b: c}}`,
	},
	"a label that nothing has": {
		model.Change{Rule: model.RuleRequirement, Object: "example.com/red", From: "yes"},
		`{nodeSelector: {example.com/red: "yes", b: c}}`, `{nodeSelector: {b: c}}`,
	},
	"another value in nodeAffinity": {
		model.Change{Rule: model.RuleRequirement, Object: model.LabelZone, From: "z", To: "a"},
		`{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [z]}, {key: b, operator: Exists}]}]}}}}`,
		`{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: b, operator: Exists}, {key: topology.kubernetes.io/zone, operator: In, values: [a]}]}]}}}}`,
	},
	"the only thing that nodeAffinity asks": {
		model.Change{Rule: model.RuleRequirement, Object: "red", From: "yes"},
		`{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: red, operator: Exists}]}]}}}}`,
		`{affinity: {nodeAffinity: {}}}`,
	},
	"less of the container that asks for most": {
		model.Change{Rule: model.RuleResource, Object: "memory", From: "11Gi", To: "8Gi"},
		`{containers: [{name: a, resources: {requests: {memory: 1Gi}}}, {name: b, resources: {requests: {memory: 10Gi}}}]}`,
		`{containers: [{name: a, resources: {requests: {memory: 1Gi}}}, {name: b, resources: {requests: {memory: 7Gi}}}]}`,
	},
	"less of a device, whose limit is the request": {
		model.Change{Rule: model.RuleResource, Object: "nvidia.com/gpu", From: "16", To: "8"},
		`{containers: [{name: a, resources: {requests: {nvidia.com/gpu: "16"}, limits: {nvidia.com/gpu: "16"}}}]}`,
		`{containers: [{name: a, resources: {requests: {nvidia.com/gpu: "8"}, limits: {nvidia.com/gpu: "8"}}}]}`,
	},
	"less, where an init container asks for as much": {
		model.Change{Rule: model.RuleResource, Object: "memory", From: "10Gi", To: "8Gi"},
		`{initContainers: [{name: i, resources: {requests: {memory: 10Gi}}}], containers: [{name: a, resources: {requests: {memory: 10Gi}}}]}`, ``,
	},
	"a spread, and minDomains with it": {
		model.Change{Rule: model.RuleSpread, Object: model.LabelZone, From: "DoNotSchedule", To: "ScheduleAnyway"},
		`{topologySpreadConstraints: [{topologyKey: kubernetes.io/hostname, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}, {topologyKey: topology.kubernetes.io/zone, maxSkew: 1, minDomains: 3, whenUnsatisfiable: DoNotSchedule}]}`,
		`{topologySpreadConstraints: [{topologyKey: kubernetes.io/hostname, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}, {topologyKey: topology.kubernetes.io/zone, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}]}`,
	},
	"one of two terms of anti-affinity": {
		model.Change{Rule: model.RuleAntiAffinity, Object: model.LabelZone, From: "required", To: "preferred"},
		`{affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname}, {topologyKey: topology.kubernetes.io/zone}]}}}`,
		`{affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname}], preferredDuringSchedulingIgnoredDuringExecution: [{weight: 100, podAffinityTerm: {topologyKey: topology.kubernetes.io/zone}}]}}}`,
	},
	"the only term of affinity": {
		model.Change{Rule: model.RuleAffinity, Object: model.LabelZone, From: "required", To: "preferred"},
		`{affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: topology.kubernetes.io/zone}]}}}`,
		`{affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 100, podAffinityTerm: {topologyKey: topology.kubernetes.io/zone}}]}}}`,
	},
	"a term that is another pod's": {
		model.Change{Rule: model.RuleAntiAffinity, Object: model.LabelZone, From: "required", To: "preferred"},
		`{affinity: {podAffinity: {}}}`, ``,
	},
	"a host port": {
		model.Change{Rule: model.RuleHostPort, Object: "TCP 80", From: "TCP 80"},
		`{containers: [{name: a, ports: [{containerPort: 80, hostPort: 80, protocol: UDP}, {containerPort: 80, hostPort: 80}]}]}`,
		`{containers: [{name: a, ports: [{containerPort: 80, hostPort: 80, protocol: UDP}, {containerPort: 80}]}]}`,
	},
	"a host port in the host's network": {
		model.Change{Rule: model.RuleHostPort, Object: "TCP 80", From: "TCP 80"},
		`{hostNetwork: true, containers: [{name: a, ports: [{containerPort: 80, hostPort: 80}]}]}`, ``,
	},
	"what is no edit": {model.Change{Rule: model.RuleCapacity, Object: "m5.large"}, `{}`, ``},
}

func TestAPatchIsTheChange(t *testing.T) {
	for name, tc := range edits {
		var spec corev1.PodSpec
		var doc, want any
		for text, into := range map[string][]any{tc.spec: {&spec, &doc}, tc.want: {&want}} {
			for _, v := range into {
				if err := yaml.Unmarshal([]byte(text), v); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		}
		ops := podOps(&spec, "/spec/template/spec", &tc.change)
		if tc.want == "" {
			if len(ops) > 0 {
				t.Errorf("%s: %+v, want nothing", name, ops)
			}
			continue
		}
		got := applied(t, map[string]any{"spec": map[string]any{"template": map[string]any{"spec": doc}}}, ops)
		text, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": want}}})
		if now, err2 := json.Marshal(got); err != nil || err2 != nil || string(now) != string(text) {
			t.Errorf("%s\ngot  %s\nwant %s", name, now, text)
		}
	}
}

func TestAPatchOfAPool(t *testing.T) {
	const pool = `{spec: {limits: {cpu: "2"}, template: {spec: {requirements: [{key: a, operator: In, values: [x], minValues: 3}, {key: b, operator: NotIn, values: [w]}]}}}}`
	for want, c := range map[string]model.Change{
		`{spec: {limits: {cpu: "4"}, template: {spec: {requirements: [{key: a, operator: In, values: [x], minValues: 3}, {key: b, operator: NotIn, values: [w]}]}}}}`:    {Rule: model.RuleLimit, Object: "limit cpu", Pool: "p", From: "2", To: "4"},
		`{spec: {limits: {cpu: "2"}, template: {spec: {requirements: [{key: a, operator: In, values: [x], minValues: 1}, {key: b, operator: NotIn, values: [w]}]}}}}`:    {Rule: model.RuleMinValues, Object: "a", Pool: "p", From: "3", To: "1"},
		`{spec: {limits: {cpu: "2"}, template: {spec: {requirements: [{key: a, operator: In, values: [x, z], minValues: 3}, {key: b, operator: NotIn, values: [w]}]}}}}`: {Rule: model.RuleRequirement, Object: "requirement a", Pool: "p", From: "x", To: "z"},
		`{spec: {limits: {cpu: "2"}, template: {spec: {requirements: [{key: a, operator: In, values: [x], minValues: 3}]}}}}`:                                            {Rule: model.RuleRequirement, Object: "requirement b", Pool: "p", From: "NotIn [w]", To: "w"},
	} {
		var np karpv1.NodePool
		var doc, wanted any
		if err := yaml.Unmarshal([]byte(pool), &np); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(pool), &doc); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(want), &wanted); err != nil {
			t.Fatal(err)
		}
		ops, ofPool := poolOps(&np, &c)
		got, err := json.Marshal(applied(t, doc, ops))
		text, err2 := json.Marshal(wanted)
		if err != nil || err2 != nil || !ofPool || len(ops) == 0 || string(got) != string(text) {
			t.Errorf("%+v\ngot  %s\nwant %s", c, got, text)
		}
	}
	if ops, ofPool := poolOps(nil,
		&model.Change{Rule: model.RuleLimit, Object: "limit cpu", Pool: "gone"}); len(ops) > 0 || !ofPool {
		t.Errorf("of a pool that is gone: %+v, %v", ops, ofPool)
	}
}

// A requirement that excludes values or sets a bound is never narrowed to the one value that it is to allow as well.
func TestAPatchOfAPoolAllowsAValueMore(t *testing.T) {
	for was, want := range map[string]string{
		`{key: b, operator: In, values: [v]}`:                     `[{key: b, operator: In, values: [v, w]}]`,
		`{key: b, operator: NotIn, values: [w, v]}`:               `[{key: b, operator: NotIn, values: [v]}]`,
		`{key: b, operator: NotIn, values: [v, w]}`:               `[{key: b, operator: NotIn, values: [v]}]`,
		`{key: b, operator: NotIn, values: [w, v], minValues: 2}`: `[{key: b, operator: NotIn, values: [v], minValues: 2}]`,
		`{key: b, operator: NotIn, values: [w]}`:                  `[]`,
		`{key: b, operator: NotIn, values: [w], minValues: 2}`:    ``,
		`{key: b, operator: NotIn, values: [v]}`:                  ``,
		`{key: b, operator: Gt, values: ["2"]}`:                   ``,
		`{key: b, operator: Lt, values: ["2"]}`:                   ``,
		`{key: b, operator: DoesNotExist}`:                        ``,
	} {
		const before, after = `{spec: {template: {spec: {requirements: `, `}}}}`
		pool := before + "[" + was + "]" + after
		var np karpv1.NodePool
		var doc, wanted any
		for text, into := range map[string][]any{pool: {&np, &doc}, before + want + after: {&wanted}} {
			for _, v := range into {
				if err := yaml.Unmarshal([]byte(text), v); err != nil {
					t.Fatal(err)
				}
			}
		}
		c := &model.Change{Rule: model.RuleRequirement, Object: "requirement b", Pool: "p", To: "w"}
		ops, ofPool := poolOps(&np, c)
		if want == "" {
			if len(ops) > 0 || !ofPool {
				t.Errorf("%s: %+v, want nothing", was, ops)
			}
			continue
		}
		got, err := json.Marshal(applied(t, doc, ops))
		text, err2 := json.Marshal(wanted)
		if err != nil || err2 != nil || !ofPool || string(got) != string(text) {
			t.Errorf("%s\ngot  %s\nwant %s", was, got, text)
		}
	}
}

func TestACommandIsOneLineForAShell(t *testing.T) {
	ops := []Op{{"replace", "/spec/nodeSelector/it's", "a\u202e\x1b"}}
	for want, p := range map[string]Patch{
		`kubectl patch nodepool p --type json -p '[{"op":"replace","path":"/spec/nodeSelector/it'\''s","value":"a\u202e\u001b"}]'`:             {Kind: "nodepool", Name: "p", Ops: ops},
		`kubectl -n shop patch deployment web --type json -p '[{"op":"replace","path":"/spec/nodeSelector/it'\''s","value":"a\u202e\u001b"}]'`: {Kind: "deployment", Namespace: "shop", Name: "web", Ops: ops},
		`kubectl -n shop get pod web -o json | kubectl patch --local -f - --type json -p '[{"op":"remove","path":"/a"}]' -o json | kubectl replace --force -f -`: {
			Kind: "pod", Namespace: "shop", Name: "web", Anew: true, Ops: []Op{{Op: "remove", Path: "/a"}},
		},
	} {
		if got := p.Command(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
