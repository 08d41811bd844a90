package query_test

import (
	"testing"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/explain/query"
)

func TestMatrixOfShapesAndPools(t *testing.T) {
	s, policy := cluster(t, `
pool general
pool gpu taint(gpu=true:NoSchedule)
shape web cpu=500m
node there pool=general type=s2 zone=a ready=1h runs(web-1 as web)
pods 3 fits cpu=3
pods 2 huge cpu=500
pods 1 small cpu=1
`)
	rows := query.All(s, policy)
	if len(rows) != 3 {
		t.Fatalf("%d shapes", len(rows))
	}
	huge, fits, small := rows[0], rows[1], rows[2]
	if huge.Nothing != 2 || huge.Pods != 2 || huge.Reason == nil || huge.Pools[0].Could {
		t.Errorf("huge: %+v", huge)
	}
	if text := reason.Verdict(huge.Pools[0].Verdict); text != reason.Verdict(huge.Reason.Pools[0]) {
		t.Errorf("the pool says %q, and the reason %q", text, reason.Verdict(huge.Reason.Pools[0]))
	}
	if text := reason.Verdict(huge.Pools[1].Verdict); text != "pool gpu: does not tolerate taint gpu=true:NoSchedule" {
		t.Errorf("the pool with a taint says %q", text)
	}
	if fits.Launching != 3 || fits.Pools[0].Launching != 3 || !fits.Pools[0].Could || fits.Reason != nil {
		t.Errorf("fits: %+v", fits)
	}
	if small.Room != 1 || small.Such != s.Pending[5].PodKey {
		t.Errorf("small: %+v", small)
	}
}

// A pool with matching nodes cannot help a pod that is blocked by something no pool can change.
func TestNoPoolHelpsBlockedPods(t *testing.T) {
	for pods, rule := range map[string]model.Rule{
		`pods 2 db cpu=100m blocked("persistentVolumeClaim data does not exist")`: model.RuleBlocked,
		`pods 1 gpu cpu=100m unmodelled(resourceClaims)`:                          model.RuleUnmodelled,
	} {
		s, policy := cluster(t, "pool general\n"+pods)
		rows := query.All(s, policy)
		if len(rows) != 1 || rows[0].Nothing != rows[0].Pods || rows[0].Pools[0].Could ||
			rows[0].Pools[0].Verdict.Rule != rule {
			t.Errorf("%s: %+v", pods, rows)
		}
	}
}

// Pods of one shape are one row, however many there are.
func TestTenThousandPodsOfOneShape(t *testing.T) {
	s, policy := cluster(t, "pool general\npods 10000 web cpu=500m\n")
	rows := query.All(s, policy)
	if len(rows) != 1 || rows[0].Pods != 10_000 || rows[0].Launching != 10_000 || rows[0].Pools[0].Launching != 10_000 {
		t.Errorf("%d rows, the first: %+v", len(rows), rows[0])
	}
}
