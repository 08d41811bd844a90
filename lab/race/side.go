package main

import (
	"encoding/base64"
	"fmt"
	"path/filepath"

	"github.com/nodeless/nodeless/lab/process"
)

// side is a controller in the race.
type side struct {
	name    string
	program string   // in the folder of programs
	args    []string // of its command line
	env     []string // in addition to the common variables
	agent   string   // prefix of the user agent of its calls to the API server
	lease   string   // namespace of its leader election Lease, if it elects a leader
}

var sides = []side{
	{
		name: "nodeless", program: "nodeless-controller", agent: "nodeless-controller/", lease: "kube-system",
		args: []string{"run"},
	},
	{
		name: "karpenter", program: "karpenter", agent: "karpenter", lease: "default",
		env: []string{"KUBERNETES_MIN_VERSION=1.19.0-0"},
	},
}

func chooseSides(name string) ([]side, error) {
	if name == "" {
		return sides, nil
	}
	for _, s := range sides {
		if s.name == name {
			return []side{s}, nil
		}
	}
	return nil, fmt.Errorf("-side %q: say nodeless or karpenter", name)
}

// start starts the controller. Nodeless reads Karpenter's environment variables, so both sides have the same
// settings; everything else has its default.
func (s *side) start(c *cluster, bin string) (*process.Process, error) {
	env := append([]string{
		"KUBECONFIG=" + c.session.Kubeconfig,
		"AWS_ENDPOINT_URL=" + c.session.RegionURL, "AWS_REGION=" + c.session.Region,
		"AWS_ACCESS_KEY_ID=race", "AWS_SECRET_ACCESS_KEY=race", "AWS_EC2_METADATA_DISABLED=true",
		"CLUSTER_NAME=nodeless", "CLUSTER_ENDPOINT=" + c.config.Host,
		"CLUSTER_CA_BUNDLE=" + base64.StdEncoding.EncodeToString(c.config.CAData),
		"INTERRUPTION_QUEUE=nodeless", "SYSTEM_NAMESPACE=kube-system",
		fmt.Sprintf("DISABLE_LEADER_ELECTION=%t", !c.elect), "LEADER_ELECTION_NAMESPACE=" + s.lease,
		"METRICS_PORT=0", "HEALTH_PROBE_PORT=0",
	}, s.env...)
	return process.Start(c.dir, s.name, env, append([]string{filepath.Join(bin, s.program)}, s.args...)...)
}
