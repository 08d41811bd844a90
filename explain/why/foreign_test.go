package why_test

import (
	"strings"
	"testing"

	"github.com/nodeless/nodeless/explain/why"
)

// A NodePool of another controller, its NodeClaim and its Node are said to be that controller's. EKS Auto Mode's are
// AWS's where Nodeless launches nodes of other classes.
func TestWhyAnotherControllersObjectsAreLeftAlone(t *testing.T) {
	ofClass := func(group, kind string) string {
		return strings.NewReplacer("BUDGET", `"1"`, "group: karpenter.k8s.aws, kind: EC2NodeClass, name",
			"group: "+group+", kind: "+kind+", name").Replace(idle)
	}
	const ours = `---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: web-1, uid: nw, annotations: {nodeless.sh/launch: x}, labels: {karpenter.sh/nodepool: web}}
spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}
`
	const left = "it belongs to another controller, that of "
	for name, x := range map[string]struct{ objects, want string }{
		"a provider of another cloud": {
			ofClass("karpenter.azure.com", "AKSNodeClass"),
			left + "AKSNodeClass in group karpenter.azure.com: Nodeless neither changes nor removes it",
		},
		"Auto Mode beside Nodeless": {
			ofClass("eks.amazonaws.com", "NodeClass") + ours, left + "NodeClass in group eks.amazonaws.com",
		},
		"Auto Mode alone":               {ofClass("eks.amazonaws.com", "NodeClass"), ""},
		"Karpenter's, to be taken over": {ofClass("karpenter.k8s.aws", "EC2NodeClass") + ours, ""},
	} {
		for _, of := range []string{"node/n1", "nodeclaim/general-1", "nodepool/general"} {
			a, text := ask(t, load(t, x.objects), of)
			if (a.Verdict == why.NotManaged) != (x.want != "") || !strings.Contains(a.Summary, x.want) {
				t.Errorf("%s: %s: %s", name, a.Verdict, text)
			}
		}
	}
}
