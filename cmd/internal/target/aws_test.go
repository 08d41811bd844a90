package target

import (
	"testing"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestKubeconfigsThatNameAnEKSCluster(t *testing.T) {
	raw := clientcmdapi.NewConfig()
	for context, cluster := range map[string]string{
		"aws": "arn:aws:eks:us-west-2:111122223333:cluster/prod", "eksctl": "shop.eu-west-1.eksctl.io", "kind": "kind-kind",
	} {
		raw.Contexts[context] = &clientcmdapi.Context{Cluster: cluster}
	}
	raw.CurrentContext = "aws"
	for context, want := range map[string]string{"": "prod", "eksctl": "shop", "kind": "", "none": ""} {
		if got := eksName(*raw, context); got != want {
			t.Errorf("context %q: %q, want %q", context, got, want)
		}
	}
}
