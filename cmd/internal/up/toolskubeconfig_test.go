//go:build !noplane

package up

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfigOf returns a kubeconfig whose cluster, user and context have one name.
func kubeconfigOf(name, server string) *clientcmdapi.Config {
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{Server: server}
	c.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: server}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	c.CurrentContext = name
	return c
}

// publishTwice starts a cluster, lets change edit the kubeconfig of "nodeless env", and starts the cluster again, with
// another port. It returns the kubeconfig.
func publishTwice(t *testing.T, change func(path string)) *clientcmdapi.Config {
	t.Helper()
	path, own := filepath.Join(t.TempDir(), "kubeconfig"), filepath.Join(t.TempDir(), "own")
	for _, server := range []string{"https://127.0.0.1:1", "https://127.0.0.1:2"} {
		if err := clientcmd.WriteToFile(*kubeconfigOf("nodeless", server), own); err != nil {
			t.Fatal(err)
		}
		if err := publishKubeconfig(own, path); err != nil {
			t.Fatal(err)
		}
		if server == "https://127.0.0.1:1" {
			change(path)
		}
	}
	c, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const now = "https://127.0.0.1:2"
	if cluster, user := c.Clusters["nodeless"], c.AuthInfos["nodeless"]; cluster.Server != now || user.Token != now {
		t.Errorf("the cluster %+v is the earlier one", cluster)
	}
	return c
}

// `aws eks update-kubeconfig` adds a context and makes it the current one. It works after the next start, also if
// the API server has another port then.
func TestTheToolsKubeconfigKeepsWhatOthersAdd(t *testing.T) {
	c := publishTwice(t, func(path string) {
		theirs, err := clientcmd.LoadFromFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for name, server := range map[string]string{"eks": "https://127.0.0.1:1", "other": "https://127.0.0.1:9"} {
			added := kubeconfigOf(name, server)
			theirs.Clusters[name], theirs.AuthInfos[name] = added.Clusters[name], added.AuthInfos[name]
			theirs.Contexts[name] = added.Contexts[name]
		}
		theirs.CurrentContext = "eks"
		if err := clientcmd.WriteToFile(*theirs, path); err != nil {
			t.Fatal(err)
		}
	})
	if c.CurrentContext != "eks" || c.Contexts["eks"] == nil || c.AuthInfos["eks"] == nil {
		t.Errorf("the current context is %q of %v", c.CurrentContext, c.Contexts)
	}
	if eks, other := c.Clusters["eks"].Server, c.Clusters["other"].Server; eks != "https://127.0.0.1:2" ||
		other != "https://127.0.0.1:9" {
		t.Errorf("the servers are %s and %s", eks, other)
	}
}

func TestAToolsKubeconfigThatDoesNotWorkIsMadeAgain(t *testing.T) {
	for _, content := range []string{"", "clusters: [", "apiVersion: v1\nkind: Config\ncurrent-context: gone\n"} {
		c := publishTwice(t, func(path string) {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		})
		if c.CurrentContext != "nodeless" {
			t.Errorf("after %q the current context is %q", content, c.CurrentContext)
		}
	}
}
