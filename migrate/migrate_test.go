package migrate

import (
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

func run(t *testing.T, name, manifests string) (r *Result, manifest, report string) {
	t.Helper()
	r, err := Run([]Input{{name, strings.NewReader(manifests)}}, Options{})
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

// Each file of testdata becomes the manifests and the report beside it; what is written is read again unchanged.
func TestManifestsAreMigrated(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.yaml")
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			manifests, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r, out, report := run(t, filepath.Base(file), string(manifests))
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
			again, second, _ := run(t, "again", out)
			if len(again.Notes) > 0 || stripComments(second) != stripComments(out) {
				t.Errorf("migrated once more: %v\n%s", again.Notes, second)
			}
		})
	}
}

// fitsTheAPI decodes what was written as strictly as the API server does.
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
		if _, err := Run([]Input{{"in.yaml", strings.NewReader(text)}}, Options{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want an error with %q", text, err, want)
		}
	}
	if r, err := Run([]Input{{"in.yaml", strings.NewReader("# nothing\n---\n")}}, Options{}); err != nil ||
		len(r.Objects)+len(r.Notes) > 0 {
		t.Errorf("nothing becomes %v, %v", r, err)
	}
}
