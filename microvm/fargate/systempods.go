package fargate

import (
	"fmt"
	"strings"

	"github.com/nodeless/nodeless/api/v1alpha1"
)

// systemNamespace is where a cluster's own pods run.
const systemNamespace = "kube-system"

// Advise gives what the author of a profile should know: whole sentences, none if all is well. Nothing of it is an error: a
// cluster can run its system pods in microVMs if somebody wants that.
func Advise(spec *v1alpha1.FargateProfileSpec) []string {
	var out []string
	if spec.Engine == v1alpha1.EngineNamespace {
		out = append(out, "spec.engine: Namespace is no virtual machine: these pods share the host's kernel, and who breaks out of one is root on the host; "+
			"leave it out wherever a host can run virtual machines")
	}
	for i, s := range spec.Selectors {
		if len(s.Labels) > 0 {
			continue
		}
		switch {
		case strings.Trim(s.Namespace, "*") == "" && s.Namespace != "":
			out = append(out, fmt.Sprintf("spec.selectors[%d]: namespace %q without labels selects every pod of the cluster, its system pods included; "+
				"name namespaces, or give labels", i, s.Namespace))
		case strings.ContainsAny(s.Namespace, "*?") && glob(s.Namespace, systemNamespace):
			out = append(out, fmt.Sprintf("spec.selectors[%d]: namespace %q also fits kube-system: the cluster's system pods get microVMs too; "+
				"name the namespaces, or give labels", i, s.Namespace))
		case s.Namespace == systemNamespace:
			out = append(out, fmt.Sprintf("spec.selectors[%d]: every new pod of kube-system but those of DaemonSets gets a microVM; "+
				"give labels if only some shall", i))
		}
	}
	return out
}
