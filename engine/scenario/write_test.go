package scenario

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/gen"
)

// content is a snapshot and a policy as text, in which nothing and an empty list are the same.
func content(t *testing.T, s *model.Snapshot, policy model.Policy) string {
	t.Helper()
	raw, err := json.MarshalIndent(Case{Snapshot: s, Policy: policy}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(raw), ": []", ": null")
}

// comesBack fails unless the snapshot is the same after it was written and read.
func comesBack(t *testing.T, s *model.Snapshot, policy model.Policy) {
	t.Helper()
	text := Format(s, policy)
	back, backPolicy, err := Parse(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	want, got := strings.Split(content(t, s, policy), "\n"), strings.Split(content(t, back, backPolicy), "\n")
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			from := max(0, i-12)
			t.Fatalf("changed on its way, line %d:\n%s\n--- want\n%s\n%s", i, strings.Join(got[from:i+1], "\n"), want[i], text)
		}
	}
	if again := Format(back, backPolicy); again != text {
		t.Fatalf("written twice, it differs:\n%s\n---\n%s", text, again)
	}
}

func TestEveryScenarioComesBackFromItsText(t *testing.T) {
	files, err := filepath.Glob("../testdata/*.txt")
	more, _ := filepath.Glob("../testdata/pending/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, file := range append(files, more...) {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cluster, _, _ := strings.Cut(string(raw), "\n-----")
		s, policy, err := Parse(cluster)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		comesBack(t, s, policy)
	}
}

func TestEverySnapshotComesBackFromItsText(t *testing.T) {
	for seed := range uint64(150) {
		comesBack(t, gen.Random(seed), model.Policy{})
		comesBack(t, gen.Constrained(seed), gen.Policy(seed))
		comesBack(t, gen.Disruptive(seed), gen.DisruptionPolicy(seed))
	}
	comesBack(t, gen.Diverse(500, 50), model.Policy{})
}
