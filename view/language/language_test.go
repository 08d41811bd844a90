package language

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/nodeless/nodeless/explain/record"
)

// locale returns an environment with one variable.
func locale(name, value string) func(string) string {
	return func(asked string) string {
		if asked == name {
			return value
		}
		return ""
	}
}

func TestForLocale(t *testing.T) {
	for _, c := range []struct {
		name, value string
		korean      bool
	}{
		{"LANG", "ko_KR.UTF-8", true},
		{"LC_ALL", "ko", true},
		{"LC_MESSAGES", "ko_KR", true},
		{"LANG", "kok_IN.UTF-8", false},
		{"LANG", "C.UTF-8", false},
		{"LANG", "", false},
		{"LC_CTYPE", "ko_KR.UTF-8", false},
	} {
		if got := ForLocale(locale(c.name, c.value)) != nil; got != c.korean {
			t.Errorf("%s=%s is Korean: %t", c.name, c.value, got)
		}
	}
	english := func(name string) string { return map[string]string{"LC_ALL": "C", "LANG": "ko_KR.UTF-8"}[name] }
	if ForLocale(english) != nil {
		t.Error("LANG counts although LC_ALL is set")
	}
}

func TestSay(t *testing.T) {
	l := ForLocale(locale("LANG", "ko_KR.UTF-8"))
	for _, c := range [][2]string{
		{"", ""},
		{"Nodes", "노드"},
		{"a sentence of somebody else", "a sentence of somebody else"},
		{"1 node", "노드 1개"},
		{"1,234 nodes", "노드 1,234개"},
		{"it is kept: its price is not known", "유지됩니다: 가격을 알 수 없습니다"},
		// A name stays as it is, even if it is a word of the catalogue.
		{"pool empty sets consolidateAfter: Never", "노드 풀 empty의 설정은 consolidateAfter: Never입니다"},
		{"pool Nodes: its price is not known", "노드 풀 Nodes: 가격을 알 수 없습니다"},
		{"pods, nodes", "pods, nodes"},
		{
			"5s ago: m5.large spot in a at $0.1/h for 2 pods (cpu 1), pool p",
			"5s 전: 노드 풀 p: 파드 2개(cpu 1)에 a의 m5.large spot, $0.1/h",
		},
		// A number or name ends at the end of its sentence.
		{
			"does not tolerate taint a=b:NoSchedule; 2 other pools cannot either",
			"테인트 a=b:NoSchedule을(를) 톨러레이트하지 않습니다; 다른 노드 풀 2개도 마찬가지입니다",
		},
		// Text that is not in the catalogue stays English beside translated text.
		{"somebody's sentence; it is empty", "somebody's sentence; 비어 있습니다"},
		{"it is {0}", "it is {0}"},
	} {
		for range 2 { // the second time from the cache
			if got := l.Say(c[0]); got != c[1] {
				t.Errorf("%q is %q, want %q", c[0], got, c[1])
			}
		}
	}
	if long := strings.Repeat("it is empty: ", 10_000); l.Say(long) != long {
		t.Error("a text without end is translated")
	}
	var none *Language
	if got := none.Say("Nodes"); got != "Nodes" {
		t.Errorf("without a language it says %q", got)
	}
}

// Each translation uses the placeholders of its form, and no others; each form occurs once.
func TestKoreanCatalogue(t *testing.T) {
	decoder := json.NewDecoder(bytes.NewReader(Korean))
	if _, err := decoder.Token(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	gap := regexp.MustCompile(`\{(?:say )?(.*?)\}`)
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			t.Fatal(err)
		}
		value, err := decoder.Token()
		if err != nil {
			t.Fatal(err)
		}
		names := func(text any) map[string]bool {
			out := map[string]bool{}
			for _, found := range gap.FindAllStringSubmatch(text.(string), -1) {
				out[found[1]] = true
			}
			return out
		}
		from, to := names(key), names(value)
		if seen[key.(string)] {
			t.Errorf("%q is there twice", key)
		}
		seen[key.(string)] = true
		for name := range from {
			if !to[name] {
				t.Errorf("%q loses %q", value, name)
			}
		}
		for name := range to {
			if !from[name] {
				t.Errorf("%q invents %q", value, name)
			}
		}
	}
}

// data are the facts of an answer that contain only data.
var data = map[string]bool{"command": true, "requests": true, "owner": true, "kube-scheduler": true, "node class": true, "blocked": true, "requires": true}

// Whatever nodeless why prints in its stories is translated, except data and what others wrote.
func TestKoreanHasWhatWhySays(t *testing.T) {
	l := ForLocale(locale("LANG", "ko_KR.UTF-8"))
	files, err := filepath.Glob("../../lab/stories/testdata/why/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no answers: %v", err)
	}
	said := map[string]bool{
		fmt.Sprintf(record.Counterfactual, "24h0m0s"): true, record.Division: true,
		"it belongs to another controller, that of AKSNodeClass in group karpenter.azure.com: Nodeless neither changes nor removes it": true,
		"the controller of its node class; its log and events say more":                                                                true,
		"the CSI driver to detach 2 volumes: csi-1, csi-2":                                                                             true, "waits for": true,
		"storageClass array has less than the 20Gi requested: 5Gi at zone a":                                                                                                 true,
		"in spec.template.spec of StatefulSet db: let nodeSelector or nodeAffinity allow disk: ssd; then delete pod db-1: updateStrategy OnDelete replaces no pod by itself": true,
		"lower spec.updateStrategy.rollingUpdate.partition of StatefulSet db from 3 to at most 1 too, else the pod keeps the old template even if it is deleted":             true,
		"then delete pod db-1: podManagementPolicy OrderedReady replaces no pod while one is not ready":                                                                      true,
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		label := ""
		for line := range strings.Lines(string(raw)) {
			line = strings.TrimSuffix(line, "\n")
			if !strings.HasPrefix(line, " ") { // subject, state, summary
				if _, rest, found := strings.Cut(line, "  "); found {
					for part := range strings.SplitSeq(rest, "  ") {
						said[part] = true
					}
				}
				continue
			}
			name, text, _ := strings.Cut(line[1:], "  ")
			if text = strings.TrimSpace(text); name != "" {
				label = name
			}
			said[label] = true
			if !data[label] {
				said[text] = true
			}
		}
	}
	missing := 0
	for text := range said {
		korean := strings.ContainsFunc(l.Say(text), func(r rune) bool { return unicode.Is(unicode.Hangul, r) })
		if strings.Contains(text, " ") && !korean {
			missing++
			t.Errorf("not in Korean: %s", text)
		}
	}
	if len(said) < 100 || missing > 0 {
		t.Errorf("%d of %d texts are not in Korean", missing, len(said))
	}
}

// The page's and top's own texts are in the catalogue.
func TestKoreanHasWhatViewsSay(t *testing.T) {
	l := ForLocale(locale("LANG", "ko_KR.UTF-8"))
	said := regexp.MustCompile(`\b(?:t|say|Say)\("((?:[^"\\]|\\.)+)"\)`)
	count := 0
	for _, pattern := range []string{"../web/page/src/*.ts*", "../tui/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no files %s: %v", pattern, err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range said.FindAllStringSubmatch(string(raw), -1) {
				count++
				if l.Say(found[1]) == found[1] {
					t.Errorf("%s: not in Korean: %s", file, found[1])
				}
			}
		}
	}
	if count < 150 {
		t.Errorf("only %d texts were found", count)
	}
}

// The model's notes are in the catalogue, and so is what watchers cannot show.
func TestKoreanHasWhatNotesSay(t *testing.T) {
	l := ForLocale(locale("LANG", "ko_KR.UTF-8"))
	count := 0
	check := func(file string, text []string) {
		said := l.Say(strings.Join(text, "some-name"))
		for _, part := range text {
			if part = strings.Trim(part, " :"); strings.Contains(part, " ") {
				if count++; strings.Contains(said, part) {
					t.Errorf("%s: not in Korean: %s", file, said)
				}
			}
		}
	}
	for _, pattern := range []string{"../*.go", "../watcher/*.go", "../web/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no files %s: %v", pattern, err)
		}
		for _, file := range files {
			tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(tree, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Note" && !strings.HasSuffix(file, "_test.go") {
						check(file, literals(n.Args[1]))
					}
				case *ast.KeyValueExpr:
					if key, ok := n.Key.(*ast.Ident); ok && key.Name == "need" {
						check(file, literals(n.Value))
					}
				}
				return true
			})
		}
	}
	if count < 10 {
		t.Errorf("only %d texts were found", count)
	}
}

var verb = regexp.MustCompile("%[a-z]")

// literals returns what a text holds between its parts that vary.
func literals(e ast.Expr) []string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return verb.Split(strings.ReplaceAll(text, "%d", "7"), -1)
	case *ast.BinaryExpr: // a sum
		left, right := literals(e.X), literals(e.Y)
		last := len(left) - 1
		return append(append(left[:last:last], left[last]+right[0]), right[1:]...)
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Sprintf" {
			return literals(e.Args[0])
		}
	}
	return []string{"", ""}
}
