//go:build !noplane

package up

import (
	"maps"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nodeless/nodeless/internal/kit/atomicfile"
)

// publishKubeconfig adds the entries of the cluster's own kubeconfig to that of "nodeless env". What tools have added
// there stays, as does the current context if it exists. A malformed file is replaced.
func publishKubeconfig(own, path string) error {
	ours, err := clientcmd.LoadFromFile(own)
	if err != nil {
		return err
	}
	merged, err := clientcmd.LoadFromFile(path)
	if err != nil { // missing or malformed
		merged = clientcmdapi.NewConfig()
	}
	for name, now := range ours.Clusters { // the API server may have another port than before
		before := merged.Clusters[name]
		for _, c := range merged.Clusters {
			if before != nil && c != before && c.Server == before.Server {
				c.Server = now.Server
			}
		}
	}
	maps.Copy(merged.Clusters, ours.Clusters)
	maps.Copy(merged.AuthInfos, ours.AuthInfos)
	maps.Copy(merged.Contexts, ours.Contexts)
	if merged.Contexts[merged.CurrentContext] == nil {
		merged.CurrentContext = ours.CurrentContext
	}
	text, err := clientcmd.Write(*merged)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, text)
}
