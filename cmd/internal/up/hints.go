//go:build !noplane

package up

import (
	"os"

	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/cmd/internal/progress"
	"github.com/nodeless/nodeless/internal/kit/datadir"
)

// fargateExample exists for those who work in the source tree.
const fargateExample = "examples/fargate.yaml"

// hints prints where a running cluster is and what to try next. Each command is on a line of its own, ready to be
// copied.
func hints(p *progress.Printer, s localcluster.Session, dir string, microVMs bool) {
	kubectl := localcluster.CommandFor("kubectl", dir, s.Name)
	p.Line("")
	if s.Page != "" {
		p.Line("  Page        %s", s.Page)
	}
	p.Line("  API server  %s", s.APIServer)
	p.Line("  AWS region  %s", s.RegionURL)
	p.Line("  Data        %s", dir)
	p.Line("")
	p.Line("Try:")
	p.Line("  %s create deployment web --image=nginx --replicas=20", kubectl)
	p.Line("  %s get nodeclaims,nodes -o wide", kubectl)
	if _, err := os.Stat(fargateExample); err == nil && microVMs {
		p.Line("For pods that really run, each in a microVM:")
		p.Line("  %s apply -f %s", kubectl, fargateExample)
	}
	p.Line("With your own kubectl and AWS CLI:")
	p.Line("  %s get pods", ownKubectl(s))
	p.Line("  eval $(%s) && aws ec2 describe-instances", localcluster.CommandFor("env", dir, s.Name))
}

// ownKubectl returns how the user's kubectl reaches the cluster.
func ownKubectl(s localcluster.Session) string {
	if s.Context == "" {
		return "kubectl --kubeconfig " + datadir.Quote(s.Kubeconfig)
	}
	return "kubectl --context " + s.Context
}
