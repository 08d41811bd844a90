package nodesim

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/api/vpcresources/v1beta1"
)

// os returns the Kubernetes name of the instance's operating system.
func (m *Instance) os() string {
	switch {
	case m.Windows != "":
		return string(corev1.Windows)
	case m.Type == nil:
		return string(corev1.Linux)
	}
	return cmp.Or(m.Type.OS, string(corev1.Linux))
}

var (
	powerShell = regexp.MustCompile(`(?is)<powershell>(.*)</powershell>`)
	// A parameter of a PowerShell call.
	parameter = regexp.MustCompile(`(?i)-(\w+)\s+('(?:[^']|'')*'|"[^"]*"|[^\s'"]+)`)
)

// powerShellSettings reads the user data of a Windows instance: a script that calls Start-EKSBootstrap.ps1 (Amazon
// EKS user guide, "Create nodes with optimized Windows AMIs"). User data without a cluster name is an error.
func powerShellSettings(data []byte) (kubelet, error) {
	k := kubelet{Labels: map[string]string{}}
	extra := ""
	if script := powerShell.FindSubmatch(data); script != nil {
		if _, call, ok := strings.Cut(string(script[1]), "Start-EKSBootstrap.ps1"); ok {
			for _, p := range parameter.FindAllStringSubmatch(call, -1) {
				value := p[2]
				if quote := value[:1]; quote == "'" || quote == `"` {
					value = strings.ReplaceAll(value[1:len(value)-1], "''", "'")
				}
				switch strings.ToLower(p[1]) {
				case "eksclustername":
					k.Cluster = value
				case "kubeletextraargs":
					extra = value
				}
			}
		}
	}
	if k.Cluster == "" {
		return k, errors.New("user data: it has no <powershell> that calls Start-EKSBootstrap.ps1 with -EKSClusterName " +
			"(Windows): this instance cannot join a cluster")
	}
	if err := k.setFlags(extra); err != nil {
		return k, fmt.Errorf("user data: -KubeletExtraArgs: %w", err)
	}
	return k, nil
}

// offerAddresses makes the Node of a Windows instance offer an address for each pod that can have one, while the
// settings of the VPC CNI enable addresses for Windows pods. It reports whether it changed the Node.
func (r *resourceController) offerAddresses(ctx context.Context, m *Instance, node *corev1.Node) (bool, error) {
	if m.Windows == "" || m.Type == nil {
		return false, nil
	}
	want := int64(0)
	if r.windows.Load() {
		want = int64(m.Type.WindowsAddresses())
	}
	have := node.Status.Allocatable[v1beta1.PrivateIPv4Address]
	if have.Value() == want {
		return false, nil
	}
	offered := map[string]any{v1beta1.PrivateIPv4Address: nil} // nil removes it in a merge patch
	if want > 0 {
		offered[v1beta1.PrivateIPv4Address] = strconv.FormatInt(want, 10)
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID},
		"status":   map[string]any{"capacity": offered, "allocatable": offered},
	})
	if err != nil {
		return false, err
	}
	_, err = r.client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return false, fmt.Errorf("addresses of node %s for pods on Windows: %w", node.Name, err)
	}
	return true, nil
}

// enqueueWindows queues every Windows node.
func enqueueWindows(s *Simulator) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, m := range s.booted {
		if m.Windows != "" {
			s.queue.Add("node/" + name)
		}
	}
}
