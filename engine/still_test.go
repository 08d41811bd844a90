package engine_test

import (
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/scenario"
)

const stillTypes = `type c2 cpu=2 memory=4Gi pods=29 offers(a on-demand 0.1)
pool general disrupt(drifted=9, underused=9)
shape web cpu=1
`

// A command about n1 is in progress: n1 is tainted, and its pods wait for other nodes.
func TestStillTrue(t *testing.T) {
	for name, c := range map[string]struct {
		method  model.Method
		cluster string
		want    model.Rule
	}{
		"its pods have a place on a ready machine": {model.Underutilized, `
node n1 pool=general type=c2 zone=a deleting command=x
node n2 pool=general type=c2 zone=a ready=1h
pod web-1 as=web from=n1`, ""},
		"or on one on its way": {model.Underutilized, `
node n1 pool=general type=c2 zone=a deleting command=x
node n2 pool=general type=c2 zone=a state=in-flight labels(type=c2)
pod web-1 as=web from=n1`, ""},
		"it was not tainted yet": {model.Underutilized, `
node n1 pool=general type=c2 zone=a ready=1h runs(web-1 as web)
node n2 pool=general type=c2 zone=a ready=1h`, ""},
		"nobody is there any more": {model.Underutilized, `
node n1 pool=general type=c2 zone=a deleting command=x`, ""},
		"the room is taken": {model.Underutilized, `
node n1 pool=general type=c2 zone=a deleting command=x
node n2 pool=general type=c2 zone=a ready=1h runs(a as web, b as web)
pod web-1 as=web from=n1`, model.RuleMoreNodes},
		"a drifted machine's pods may need another": {model.Drifted, `
node n1 pool=general type=c2 zone=a deleting command=x drifted=NodePoolDrifted
pod web-1 as=web from=n1`, ""},
		"but not one that there is not": {model.Drifted, `
node n1 pool=general type=c2 zone=a deleting command=x drifted=NodePoolDrifted
pod web-1 cpu=64 from=n1`, model.RuleNoPlace},
		"a static pool's pods need not fit": {model.Drifted, `
pool fixed replicas=1 disrupt(drifted=9)
node n1 pool=fixed type=c2 zone=a deleting command=x drifted=NodePoolDrifted
pod web-1 cpu=64 from=n1`, ""},
		"it is no longer drifted": {model.Drifted, `
node n1 pool=general type=c2 zone=a deleting command=x`, model.RuleNotDrifted},
		"it is gone": {model.Drifted, `
node n2 pool=general type=c2 zone=a`, model.RuleGone},
		"it is another one of the name": {model.Drifted, `
node n1 pool=general type=c2 zone=a claim=other drifted=NodePoolDrifted`, model.RuleGone},
		"it was annotated": {model.Underutilized, `
node n1 pool=general type=c2 zone=a deleting command=x do-not-disrupt`, model.RuleDoNotDisrupt},
		"a pod of it was annotated": {model.Underutilized, `
node n1 pool=general type=c2 zone=a deleting command=x runs(web-1 as web do-not-disrupt)`, model.RuleDoNotDisrupt},
		"a budget holds a pod": {model.Drifted, `
node n1 pool=general type=c2 zone=a deleting command=x drifted=NodePoolDrifted runs(web-1 as web held=pdb)`, model.RuleEvictionBlocked},
		"a budget holds a pod of a machine with a deadline": {model.Drifted, `
node n1 pool=general type=c2 zone=a deleting deadline command=x drifted=NodePoolDrifted runs(web-1 as web held=pdb)`, ""},
		"a pod was annotated on a machine with a deadline": {model.Underutilized, `
node n1 pool=general type=c2 zone=a deleting deadline command=x runs(web-1 as web do-not-disrupt)`, model.RuleDoNotDisrupt},
		"drift ends such a pod at the deadline": {model.Drifted, `
node n1 pool=general type=c2 zone=a deleting deadline command=x drifted=NodePoolDrifted runs(web-1 as web do-not-disrupt)`, ""},
		"the window has closed": {model.Underutilized, `
pool timed disrupt(underused=9) annotations(window=underused, until=1h)
node n1 pool=timed type=c2 zone=a deleting command=x`, model.RuleWindow},
		"the window is for other reasons": {model.Underutilized, `
pool timed disrupt(underused=9) annotations(window=drifted, until=1h)
node n1 pool=timed type=c2 zone=a deleting command=x`, ""},
		"the pool's wishes cannot be read any more": {model.Drifted, `
pool timed disrupt(drifted=9) annotations(unclear="annotation")
node n1 pool=timed type=c2 zone=a deleting command=x drifted=NodePoolDrifted`, model.RuleUnclear},
		"it may become older now": {model.Expired, `
pool old disrupt(drifted=9) annotations(soft-expire=24h)
node n1 pool=old type=c2 zone=a deleting command=x age=23h`, model.RuleNotExpired},
		"it is too old still, and its pods may need another machine": {model.Expired, `
pool old disrupt(drifted=9) annotations(soft-expire=24h)
node n1 pool=old type=c2 zone=a deleting command=x age=25h
pod web-1 as=web from=n1`, ""},
		"the DaemonSet's pod runs": {model.CrowdedOut, `
pool full disrupt(drifted=9) annotations(replace-crowded)
node n1 pool=full type=c2 zone=a deleting command=x`, model.RuleNotCrowded},
		"the DaemonSet's pod waits still, though the others count no more": {model.CrowdedOut, `
pool full disrupt(drifted=9) annotations(replace-crowded)
node n1 pool=full type=c2 zone=a deleting command=x lacks(kube-system/agent=2m)`, ""},
	} {
		s, policy, err := scenario.Parse(stillTypes + c.cluster)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		command := model.Command{
			ID: "x", Method: c.method,
			Removals: []model.Removal{{Node: "n1", Claim: "claim-n1", Method: c.method}},
		}
		if got := engine.StillTrue(s, policy, command); got.Rule != c.want {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
}
