// Package kubeconfig puts a cluster into the user's own kubeconfig and takes it out again. The user's file is edited and
// not rewritten: other entries, unknown fields, their order and comments stay as they are.
package kubeconfig

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Path is the file that is edited: the first entry of $KUBECONFIG, else ~/.kube/config.
func Path() (string, error) {
	for _, p := range filepath.SplitList(os.Getenv(clientcmd.RecommendedConfigPathEnvVar)) {
		if p != "" {
			return p, nil
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("kubeconfig: %w; set KUBECONFIG", err)
	}
	return filepath.Join(home, ".kube", "config"), nil
}

// Merge adds the current context of the kubeconfig file from, with its cluster and user, to the user's kubeconfig, all three
// under the given name; entries of that name from an earlier run are replaced. The user's current context stays what it is
// unless there was none. A file that is malformed, or whose context of that name leads to another machine, is left alone,
// with an error that says what to do.
func Merge(name, from string) error {
	ours, err := clientcmd.LoadFromFile(from)
	if err != nil {
		return fmt.Errorf("kubeconfig %s: %w", from, err)
	}
	entries, err := entriesOf(ours, from)
	if err != nil {
		return err
	}
	path, err := Path()
	if err != nil {
		return err
	}
	if same, err := sameFile(path, from); err != nil || same {
		return err // $KUBECONFIG is the cluster's own file already
	}
	return edit(path, true, func(root *yaml.Node) (bool, error) {
		if err := foreign(root, name, path); err != nil {
			return false, err
		}
		for _, e := range entries {
			if err := upsert(root, e.list, name, e.field, e.value(name)); err != nil {
				return false, fmt.Errorf("kubeconfig %s: %w", path, err)
			}
		}
		if get(root, "current-context") == nil || get(root, "current-context").Value == "" {
			set(root, "current-context", scalar(name))
		}
		return true, nil
	})
}

// Remove takes the entries of that name out of the user's kubeconfig again, and the current context if it is that one. A
// missing file, a file without such entries, and entries that lead to another machine are left as they are.
func Remove(name string) error {
	path, err := Path()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return edit(path, false, func(root *yaml.Node) (bool, error) {
		if ours := get(root, "clusters") != nil && foreign(root, name, path) == nil; !ours {
			return false, nil
		}
		changed := false
		for _, list := range []string{"clusters", "users", "contexts"} {
			changed = drop(root, list, name) || changed
		}
		if c := get(root, "current-context"); changed && c != nil && c.Value == name {
			*c = *scalar("")
		}
		return changed, nil
	})
}

// entry is one of the three things that make a context.
type entry struct {
	list, field string
	value       func(name string) *yaml.Node
}

// entriesOf translates the current context of a kubeconfig with inline certificates.
func entriesOf(c *clientcmdapi.Config, path string) ([]entry, error) {
	current := c.Contexts[c.CurrentContext]
	if current == nil || c.Clusters[current.Cluster] == nil || c.AuthInfos[current.AuthInfo] == nil {
		return nil, fmt.Errorf("kubeconfig %s: it has no current context with a cluster and a user", path)
	}
	cluster, user := c.Clusters[current.Cluster], c.AuthInfos[current.AuthInfo]
	return []entry{
		{"clusters", "cluster", func(string) *yaml.Node {
			return mapping("certificate-authority-data", binary(cluster.CertificateAuthorityData), "server", scalar(cluster.Server))
		}},
		{"users", "user", func(string) *yaml.Node {
			return mapping("client-certificate-data", binary(user.ClientCertificateData), "client-key-data", binary(user.ClientKeyData))
		}},
		{"contexts", "context", func(name string) *yaml.Node {
			return mapping("cluster", scalar(name), "user", scalar(name))
		}},
	}, nil
}

// foreign refuses a cluster of that name that is not on this machine: somebody else made it, and its credentials may exist
// nowhere else.
func foreign(root *yaml.Node, name, path string) error {
	item := find(get(root, "clusters"), name)
	if item == nil {
		return nil
	}
	server := ""
	if cluster := get(item, "cluster"); cluster != nil {
		if s := get(cluster, "server"); s != nil {
			server = s.Value
		}
	}
	if u, err := url.Parse(server); err == nil {
		if ip := net.ParseIP(u.Hostname()); server == "" || u.Hostname() == "localhost" || (ip != nil && ip.IsLoopback()) {
			return nil
		}
	}
	return fmt.Errorf("kubeconfig %s: its cluster %q is another one (%s); give that another name first", path, name, server)
}

func sameFile(a, b string) (bool, error) {
	infoA, err := os.Stat(a)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("kubeconfig: %w", err)
	}
	infoB, err := os.Stat(b)
	if err != nil {
		return false, fmt.Errorf("kubeconfig: %w", err)
	}
	return os.SameFile(infoA, infoB), nil
}
