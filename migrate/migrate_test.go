package migrate

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func run(t *testing.T, name, manifests string, o Options) (r *Result, manifest, report string) {
	t.Helper()
	r, err := Run([]Input{{Name: name, Reader: strings.NewReader(manifests)}}, o)
	if err != nil {
		t.Fatal(err)
	}
	var out, told strings.Builder
	if err := r.YAML(&out); err != nil {
		t.Fatal(err)
	}
	if err := r.Report(&told, true); err != nil {
		t.Fatal(err)
	}
	return r, out.String(), told.String()
}

// Each file of testdata is migrated to the manifests and the report beside it; the migrated manifests are read again
// unchanged.
func TestManifestsAreMigrated(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.yaml")
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			manifests, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r, out, report := run(t, filepath.Base(file), string(manifests), Options{})
			golden, got := strings.TrimSuffix(file, ".yaml")+".golden", out+"\nREPORT\n"+report
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s has changed; look at it, then run with -update:\n%s", golden, got)
			}
			if r.Failed() {
				return
			}
			fitsTheAPI(t, r)
			again, second, _ := run(t, "again", out, Options{})
			if len(again.Notes) > 0 || stripComments(second) != stripComments(out) {
				t.Errorf("migrated once more: %v\n%s", again.Notes, second)
			}
		})
	}
}

// fitsTheAPI decodes the migrated objects as strictly as the API server does.
func fitsTheAPI(t *testing.T, r *Result) {
	t.Helper()
	for _, o := range r.Objects {
		var into any
		switch text(o.Value["kind"]) {
		case "NodePool":
			into = &karpv1.NodePool{}
		case classKind:
			into = &ec2v1.EC2NodeClass{}
		default:
			continue
		}
		out, err := yaml.Marshal(o.Value)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(out, into); err != nil {
			t.Errorf("%s: %v", o.Title(), err)
		}
		if pool, ok := into.(*karpv1.NodePool); ok {
			if err := pool.RuntimeValidate(t.Context()); err != nil {
				t.Errorf("%s: %v", o.Title(), err)
			}
		}
	}
}

func stripComments(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		if !strings.HasPrefix(line, "#") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestTextsThatAreNoManifests(t *testing.T) {
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'k'; c++ {
		p := string(c - 1)
		bomb += string(c) + ": &" + string(c) + " [*" + p + strings.Repeat(", *"+p, 9) + "]\n"
	}
	for text, want := range map[string]string{
		"a: {{ .Values.x }}":                  "it is a template",
		"- a\n- b":                            "no Kubernetes object",
		"a: [":                                "in.yaml",
		bomb:                                  "too large or too deep",
		"a: " + strings.Repeat("[", 200) + "": "in.yaml",
	} {
		if _, err := Run([]Input{{Name: "in.yaml", Reader: strings.NewReader(text)}}, Options{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want an error with %q", text, err, want)
		}
	}
	if r, err := Run([]Input{{Name: "in.yaml", Reader: strings.NewReader("# nothing\n---\n")}}, Options{}); err != nil ||
		len(r.Objects)+len(r.Notes) > 0 {
		t.Errorf("nothing becomes %v, %v", r, err)
	}
}

// Finished manifests may contain braces: in kinds that are not read, in scripts and in annotations.
func TestFinishedManifestsMayHaveBraces(t *testing.T) {
	const rule = `
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: nodes}
spec: {groups: [{name: a, rules: [{alert: b, annotations: {summary: "{{ $labels.node }}"}}]}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: dashboard}
data: {legend: "{{pod}}"}
`
	const script = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  userData: |
    docker ps --format '{{.Names}}'
`
	const job = `
apiVersion: v1
kind: Pod
metadata: {name: web, annotations: {vault.hashicorp.com/agent-inject-template-db: '{{ with secret "db" }}'}}
spec: {containers: [{name: c, image: IMAGE, args: ["--format={{.ID}}"], command: ["echo", "{{"]}]}
`
	const kops = `
apiVersion: kops.k8s.io/v1alpha2
kind: InstanceGroup
metadata: {name: nodes}
spec:
  role: Node
  machineType: m5.large
  additionalUserData: [{name: a.sh, type: text/x-shellscript, content: "{{.ID}}"}]
`
	const eksctl = `
apiVersion: eksctl.io/v1alpha5
kind: ClusterConfig
metadata: {name: demo, region: us-west-2}
managedNodeGroups: [{name: web, preBootstrapCommands: ["docker ps --format {{.ID}}"]}]
`
	for name, c := range map[string]struct {
		text string
		bad  bool
	}{
		"kinds that are not read": {rule, false},
		"user data":               {script, false},
		"commands":                {job, false},
		"kops":                    {kops, false},
		"eksctl":                  {eksctl, false},
		"a list":                  {`{kind: List, apiVersion: v1, items: [{kind: Secret, a: "{{x}}"}]}`, false},
		"a comment":               {"# {{ x }}\n" + script, false},
		"a text":                  {strings.Replace(job, "IMAGE", `"{{ .Values.image }}"`, 1), true},
		"a key":                   {strings.Replace(job, "IMAGE", `x, "{{ .Values.key }}": y`, 1), true},
		"unquoted":                {rule + "---\nkind: Secret\na: {{ .Values.x }}", true},
		"a text in a list":        {`{kind: List, apiVersion: v1, items: [{kind: Pod, a: "{{x}}"}]}`, true},
		"control flow":            {"{{- if .Values.x }}\n" + rule + "{{- end }}\n", true},
	} {
		_, err := Run([]Input{{Name: "in.yaml", Reader: strings.NewReader(c.text)}}, Options{})
		if (err != nil) != c.bad || err != nil && !strings.Contains(err.Error(), "it is a template; render it first") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is empty is an empty list as JSON, too.
func TestNothingBecomesEmptyLists(t *testing.T) {
	r, _, _ := run(t, "in.yaml", "# nothing", Options{})
	if text, err := json.Marshal(r); err != nil || string(text) != `{"objects":[],"notes":[]}` {
		t.Errorf("%s, %v", text, err)
	}
}

const twoTypes = `{"nodegroup": {"nodegroupName": "web",
	"nodegroupArn": "arn:aws:eks:us-east-1:111122223333:nodegroup/demo/web/1",
  "clusterName": "demo", "subnets": ["subnet-1"], "amiType": "AL2023_x86_64_STANDARD", "nodeRole": "arn:aws:iam::111122223333:role/nodes",
  "scalingConfig": {"minSize": 2, "maxSize": 9, "desiredSize": 4}, "instanceTypes": ["m5.large", "m6i.xlarge"]}}`

func TestGroupsKeepTheirSizeOrGetMoreTypes(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		want []string
		not  string
	}{
		"as they are": {Options{}, []string{
			"- m5.large\n", "limits:\n    nodes: \"9\"",
			"4 × m5.large in us-east-1, on demand, cost $280.32 a month; migrated with --widen",
		}, "replicas"},
		"--static": {Options{Static: true}, []string{"replicas: 4", "limits:\n    nodes: \"9\""}, "none without pods"},
		"--widen": {Options{Widen: true}, []string{
			"key: kubernetes.io/arch\n        operator: In\n        values:\n        - amd64",
			"key: karpenter.k8s.aws/instance-category\n        operator: In\n        values:\n        - m\n",
			"key: karpenter.k8s.aws/instance-generation\n        operator: Gte\n        values:\n        - \"5\"",
			"key: karpenter.k8s.aws/instance-cpu\n        operator: Gte\n        values:\n        - \"2\"",
			"key: karpenter.k8s.aws/instance-memory\n        operator: Gte\n        values:\n        - \"8192\"",
			"; as m5a.large they cost $251.12",
		}, "instance-type\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r, out, report := run(t, "group.json", twoTypes, c.o)
			fitsTheAPI(t, r)
			for _, want := range c.want {
				if !strings.Contains(out+report, want) {
					t.Errorf("it lacks %q:\n%s\n%s", want, out, report)
				}
			}
			if strings.Contains(out, c.not) {
				t.Errorf("it has %q:\n%s", c.not, out)
			}
		})
	}
}

func TestSizesOfGroups(t *testing.T) {
	for sizes, want := range map[string][]string{
		"maxSize: 0": {`nodes: "0"`}, "minSize: 1": {"requirements"}, "desiredCapacity: 3": {`nodes: "3"`},
		"maxSize: 4, instancesDistribution: {onDemandBaseCapacity: 4, onDemandPercentageAboveBaseCapacity: 0}": {
			"name: g-base", "replicas: 4", `nodes: "4"`,
		},
	} {
		_, out, _ := run(t, "in.yaml", "apiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\nmetadata: {name: x}\n"+
			"nodeGroups: [{name: g, instanceType: m5.large, "+sizes+"}]", Options{})
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%s: it lacks %q:\n%s", sizes, w, out)
			}
		}
		limited, pools := strings.Contains(out, "limits:"), strings.Count(out, "kind: NodePool")
		if limited == (sizes == "minSize: 1") || pools != 1 {
			t.Errorf("%s: limited: %t, %d NodePools:\n%s", sizes, limited, pools, out)
		}
	}
}

func TestGroupsThatCannotBeMigrated(t *testing.T) {
	for manifests, want := range map[string]string{
		`{"nodegroup": {"nodegroupName": "a.b"}}` + "\n---\n" +
			`{"nodegroup": {"nodegroupName": "a_b"}}`: "another EC2NodeClass a-b",
		`{"nodegroup": {"nodegroupName": "x"}}`:                                                          "spec.subnetSelectorTerms",
		`{"nodegroup": {"amiType": "AL2023_x86_64_STANDARD"}}`:                                           "no name",
		`{"AutoScalingGroups": [{"AutoScalingGroupName": "x"}]}`:                                         "describe-launch-template-versions",
		"apiVersion: kops.k8s.io/v1alpha2\nkind: InstanceGroup\nmetadata: {name: x}\nspec: {role: Node}": "name an image",
		"apiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\nmetadata: {name: x}\n" +
			"nodeGroups: [{name: u, amiFamily: Ubuntu2204}]": "Ubuntu has no alias",
	} {
		r, _, report := run(t, "in.yaml", manifests, Options{})
		if !r.Failed() || !strings.Contains(report, want) {
			t.Errorf("%s\nwant a failure with %q:\n%s", manifests, want, report)
		}
	}
}

func FuzzRun(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.yaml")
	for _, file := range files {
		manifests, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(manifests), len(file)%2 == 0)
	}
	f.Fuzz(func(t *testing.T, manifests string, other bool) {
		r, err := Run([]Input{{Name: "in.yaml", Reader: strings.NewReader(manifests)}}, Options{Static: other, Widen: other})
		if err != nil {
			return
		}
		var out strings.Builder
		if err := r.YAML(&out); err != nil {
			t.Fatal(err)
		}
		if _, err := Run([]Input{{Name: "out.yaml", Reader: strings.NewReader(out.String())}}, Options{}); err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, out.String())
		}
	})
}
