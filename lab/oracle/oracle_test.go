package oracle

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/engine/model"
)

const (
	workers     = 2
	maxFailures = 200 // of a worker
)

// TestRulesAgreeWithKubeScheduler runs cases of a fixed seed and of one that is new each day, which it prints. ORACLE_N
// is the number of (cluster, pod, node) cases for each seed, ORACLE_SEED the only seed to use.
func TestRulesAgreeWithKubeScheduler(t *testing.T) {
	n := 20_000
	if text := os.Getenv("ORACLE_N"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("ORACLE_N: %v", err)
		}
	}
	seeds := []uint64{1, uint64(time.Now().Unix() / (24 * 60 * 60))}
	if text := os.Getenv("ORACLE_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("ORACLE_SEED: %v", err)
		}
		seeds = []uint64{seed}
	} else if n > 100_000 {
		seeds = seeds[1:]
	}
	truths := make([]*truth, workers)
	for i := range truths {
		truths[i] = newTruth(t)
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { compare(t, truths, seed, n) })
	}
}

// compare splits the cases among the workers: clusters w, w+workers, …
func compare(t *testing.T, truths []*truth, seed uint64, n int) {
	tallies := make([]*balance, workers)
	failures := make([][]failure, workers)
	start := time.Now()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			tallies[w] = newBalance()
			for number := uint64(w); tallies[w].cases < n/workers && len(failures[w]) < maxFailures; number += workers {
				c := generate(seed, number)
				if f, failed := truths[w].try(c, tallies[w]); failed {
					f.number = number
					failures[w] = append(failures[w], f)
				}
			}
		})
	}
	wg.Wait()
	all := tallies[0]
	for _, b := range tallies[1:] {
		all.plus(b)
	}
	t.Logf("ORACLE_SEED=%d: %d cases, %d disagreements, %.1f s\n%s", seed, all.cases,
		len(failures[0])+len(failures[1]), time.Since(start).Seconds(), all)
	shown := map[string]int{}
	for _, list := range failures {
		for _, f := range list {
			if shown[f.kind]++; shown[f.kind] <= 1 {
				small := shrink(f.c, func(c *Case) bool {
					again, failed := truths[0].try(c, nil)
					return failed && again.kind == f.kind
				})
				again, _ := truths[0].try(small, nil)
				t.Errorf("cluster %d of seed %d: %s\nat its smallest: %s\n%s", f.number, seed, f.text, again.text, small.YAML())
				continue
			}
			t.Errorf("cluster %d of seed %d: %s", f.number, seed, f.text)
		}
	}
}

// failure is a case on which truth and claim disagree.
type failure struct {
	c      *Case
	number uint64
	kind   string
	text   string
}

// try compares truth and claim on every node of the case.
func (t *truth) try(c *Case, tally *balance) (failure, bool) {
	verdicts := t.judge(c)
	for i, allowed := range t.whether(c) {
		if tally != nil {
			tally.add(c, i, verdicts[i])
		}
		if allowed != verdicts[i].allowed() {
			return failure{
				c: c, kind: "harness",
				text: fmt.Sprintf("node %s: the framework says %v, its plugins %s", c.Nodes[i].Name, allowed, verdicts[i]),
			}, true
		}
	}
	claim := claimOf(c, t.options, rand.New(rand.NewPCG(uint64(len(c.Pods)), uint64(len(c.Nodes)))))
	for w := range ways {
		if f, failed := claim.compare(c, w, verdicts); failed {
			return f, true
		}
	}
	return claim.compareCheck(c, verdicts)
}

// compare compares the rules' state, built in one of the ways, with the verdicts.
func (c *claim) compare(of *Case, w way, verdicts []judgement) (failure, bool) {
	st := c.state(w)
	for i, node := range of.Nodes {
		if node.DeletionTimestamp != nil {
			continue // the scheduler does not know that the node is being removed; we do
		}
		rule := st.Allows(c.pending, c.nodes[i])
		if wrong := disagreement(rule, verdicts[i]); wrong != "" {
			if rule == model.RuleUnmodelled {
				wrong += fmt.Sprintf(" (%v)", c.snapshot.Shapes[c.pending].Unmodelled)
			}
			return failure{
				c: of, kind: fmt.Sprint(w, rule, verdicts[i]),
				text: fmt.Sprintf("node %s, way %d: %s", node.Name, w, wrong),
			}, true
		}
	}
	return failure{}, false
}

// compareCheck compares engine/check with the verdicts.
func (c *claim) compareCheck(of *Case, verdicts []judgement) (failure, bool) {
	for i, node := range of.Nodes {
		if node.DeletionTimestamp != nil {
			continue
		}
		if against := c.judged(c.nodes[i]); (against == "") != verdicts[i].allowed() {
			promise, _, _ := strings.Cut(against, ":")
			return failure{
				c: of, kind: fmt.Sprint("check", promise, verdicts[i]),
				text: fmt.Sprintf("node %s: engine/check says %q; it is %s", node.Name, against, verdicts[i]),
			}, true
		}
	}
	return failure{}, false
}

// Each file is a case on which truth and claim once disagreed.
func TestRegressions(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	truth := newTruth(t)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var c Case
			if err := yaml.UnmarshalStrict(data, &c); err != nil {
				t.Fatal(err)
			}
			if f, failed := truth.try(&c, nil); failed {
				t.Error(f.text)
			}
		})
	}
}
