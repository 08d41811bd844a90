// Package kubeconfig adds a cluster to the user's own kubeconfig and removes it again. It edits the user's file
// rather than rewriting it: other entries, unknown fields, their order and comments stay as they are.
package kubeconfig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Path returns the file to edit: the first entry of $KUBECONFIG, else ~/.kube/config.
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

// Context is the context of one local cluster in the user's kubeconfig. Its cluster and user have the same name, and
// an extension of the cluster names the data directory from which it runs: this identifies the owner of the context.
type Context struct {
	Name    string
	DataDir string
}

// extensionName is the name of the extension; minikube has a similar one.
const extensionName = "nodeless"

// Merge adds the current context of the kubeconfig file from, with its cluster and user, to the user's kubeconfig,
// and replaces entries of an earlier run. The user's current context is kept unless there is none. Merge leaves the
// file alone if it is malformed or read-only, or if a context of that name is not ours or belongs to another data
// directory from which a cluster runs; the error says what to do.
func (c Context) Merge(from string, runs func(dataDir string) bool) error {
	ours, err := clientcmd.LoadFromFile(from)
	if err != nil {
		return fmt.Errorf("kubeconfig %s: %w", from, err)
	}
	entries, err := c.entriesOf(ours, from)
	if err != nil {
		return err
	}
	path, err := Path()
	if err != nil {
		return err
	}
	if sameFile(path, from) {
		return nil // $KUBECONFIG is already the cluster's own file
	}
	return edit(path, true, func(root *yaml.Node) (bool, error) {
		switch owner, there := ownerOf(root, c.Name); {
		case there && owner == "":
			return false, fmt.Errorf("kubeconfig %s: its context %q was not made by nodeless; give this cluster another "+
				"name with --name", path, c.Name)
		case there && owner != c.DataDir && runs(owner):
			return false, fmt.Errorf("kubeconfig %s: the context %q belongs to the cluster in %s, which runs; give this one "+
				"another name with --name",
				path, c.Name, owner)
		}
		for _, e := range entries {
			if err := upsert(root, e.list, c.Name, e.field, e.value); err != nil {
				return false, fmt.Errorf("kubeconfig %s: %w", path, err)
			}
		}
		if get(root, "current-context") == nil || get(root, "current-context").Value == "" {
			set(root, "current-context", scalar(c.Name))
		}
		return true, nil
	})
}

// Remove removes the context from the user's kubeconfig, with its cluster and user, also as the current context. A
// missing file, a file without the context, and a context of another cluster are left as they are.
func (c Context) Remove() error {
	path, err := Path()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return edit(path, false, func(root *yaml.Node) (bool, error) {
		if owner, _ := ownerOf(root, c.Name); owner != c.DataDir {
			return false, nil
		}
		for _, list := range []string{"clusters", "users", "contexts"} {
			drop(root, list, c.Name)
		}
		if current := get(root, "current-context"); current != nil && current.Value == c.Name {
			*current = *scalar("")
		}
		return true, nil
	})
}

// DataDir returns the data directory of the cluster whose context has this name; "" if the user's kubeconfig has
// none.
func DataDir(name string) string {
	path, err := Path()
	if err != nil {
		return ""
	}
	doc, err := load(path)
	if err != nil {
		return ""
	}
	owner, _ := ownerOf(doc.Content[0], name)
	return owner
}

// ownerOf returns the data directory that a cluster of the kubeconfig names, "" for one that is not ours; there is
// false if nothing has this name.
func ownerOf(root *yaml.Node, name string) (dataDir string, there bool) {
	for _, list := range []string{"clusters", "users", "contexts"} {
		there = there || find(get(root, list), name) != nil
	}
	cluster := get(find(get(root, "clusters"), name), "cluster")
	extension := get(find(get(cluster, "extensions"), extensionName), "extension")
	if dir := get(extension, "dataDir"); dir != nil {
		return dir.Value, true
	}
	return "", there
}

// entry is one of the three entries that make up a context.
type entry struct {
	list, field string
	value       *yaml.Node
}

// entriesOf converts the current context of a kubeconfig with inline certificates.
func (c Context) entriesOf(from *clientcmdapi.Config, path string) ([]entry, error) {
	current := from.Contexts[from.CurrentContext]
	if current == nil || from.Clusters[current.Cluster] == nil || from.AuthInfos[current.AuthInfo] == nil {
		return nil, fmt.Errorf("kubeconfig %s: it has no current context with a cluster and a user", path)
	}
	cluster, user := from.Clusters[current.Cluster], from.AuthInfos[current.AuthInfo]
	extension := mapping("name", scalar(extensionName), "extension", mapping("dataDir", scalar(c.DataDir)))
	return []entry{
		{"clusters", "cluster", mapping("certificate-authority-data", binary(cluster.CertificateAuthorityData),
			"extensions", &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{extension}}, "server",
			scalar(cluster.Server))},
		{"users", "user", mapping("client-certificate-data", binary(user.ClientCertificateData), "client-key-data",
			binary(user.ClientKeyData))},
		{"contexts", "context", mapping("cluster", scalar(c.Name), "user", scalar(c.Name))},
	}, nil
}

// sameFile reports whether both paths lead to one file. Errors are reported when the file is edited.
func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}
