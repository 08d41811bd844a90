package web

import (
	"context"
	"errors"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nodeless/nodeless/view"
)

// Hosts are the hosts that run pods in microVMs.
type Hosts struct {
	At int64 `json:"at"` // when they were read, in seconds since 1970
	// Served reports whether the cluster serves the kind MicroVMHost.
	Served bool   `json:"served"`
	Hosts  []Host `json:"hosts"` // by name
	// NoMicroVMs says why it is unknown what runs on them; "" if it is known.
	NoMicroVMs string `json:"noMicroVMs,omitempty"`
	// Left counts the microVMs that are not listed because the viewer may not see them; the sums include them.
	Left int `json:"left,omitempty"`
}

// Host is a MicroVMHost with what runs on it. CPU is in millicores, memory in bytes, times in seconds since 1970.
type Host struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// Status is Ready, Starting, NotReady, or Unschedulable if the host is ready but takes no more pods.
	Status  string `json:"status"`
	Message string `json:"message,omitempty"` // why it is not ready
	Engine  string `json:"engine,omitempty"`
	Arch    string `json:"arch,omitempty"`
	Zone    string `json:"zone,omitempty"`
	Kubelet string `json:"kubelet,omitempty"` // version of its Nodes
	Kernel  string `json:"kernel,omitempty"`  // of its microVMs
	Created int64  `json:"created"`
	// Heard is when the page last saw the host's heartbeat change; 0 = it never had one.
	Heard    int64   `json:"heard"`
	Capacity HostUse `json:"capacity"`
	Used     HostUse `json:"used"`
	Network
	MicroVMs []MicroVM `json:"microVMs"` // sorted by namespace and name of their pods
}

// Network is where a host and its microVMs are reached.
type Network struct {
	PodCIDR     string `json:"podCIDR"`
	Address     string `json:"address,omitempty"`
	OverlayPort int32  `json:"overlayPort,omitempty"` // 0 = its microVMs use user-mode networking
	OverlayKey  bool   `json:"overlayKey"`            // whether it has announced a WireGuard key
}

// HostUse is what microVMs use, or may use.
type HostUse struct {
	CPU    int64 `json:"cpu"`
	Memory int64 `json:"memory"`
	Pods   int64 `json:"pods"`
}

// MicroVM is a pod that runs in a microVM.
type MicroVM struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Profile   string `json:"profile,omitempty"`
	Phase     string `json:"phase,omitempty"`
	CPU       int64  `json:"cpu"`
	Memory    int64  `json:"memory"`
	Problem   string `json:"problem,omitempty"` // why it could not be started
}

// ReadHosts reads all hosts and what runs on them. Its result is read-only.
type ReadHosts func(context.Context) (*Hosts, error)

// mostMicroVMs is the maximum number of microVMs listed per host.
const mostMicroVMs = 100

// hostList answers with the hosts and those of their microVMs that the viewer may see.
type hostList struct {
	read  ReadHosts   // nil = there are none to read
	allow *view.Allow // nil = everything
	lacks []string    // as in objectAPI
}

func (x hostList) answer(r *http.Request) (any, error) {
	const hosts, vms = "microvmhosts.nodeless.sh", "microvms.nodeless.sh"
	switch {
	case slices.Contains(x.lacks, hosts):
		return nil, lacking("hosts of microVMs", hosts)
	case x.read == nil:
		return nil, failure{http.StatusNotImplemented, errors.New("this page was started without the cluster's hosts")}
	}
	all, err := x.read(r.Context())
	switch {
	case apierrors.IsForbidden(err):
		return nil, failure{http.StatusForbidden, errors.New("the page itself may not list " + hosts + ": " + err.Error())}
	case err != nil:
		return nil, err
	}
	out := *all
	if slices.Contains(x.lacks, vms) {
		out.NoMicroVMs = lacking("microVMs", vms).Error()
	}
	out.Hosts = slices.Clone(all.Hosts)
	for i := range out.Hosts {
		h := &out.Hosts[i]
		if out.NoMicroVMs != "" {
			h.Used, h.MicroVMs = HostUse{}, nil
		}
		seen := slices.DeleteFunc(slices.Clone(h.MicroVMs), func(v MicroVM) bool { return !x.sees(v.Namespace) })
		out.Left += len(h.MicroVMs) - len(seen)
		h.MicroVMs = seen[:min(len(seen), mostMicroVMs)]
	}
	return escaped(out)
}

// sees reports whether the viewer may see pods of a namespace.
func (x hostList) sees(namespace string) bool {
	return x.allow == nil || x.allow.Pods || slices.Contains(x.allow.Namespaces, namespace)
}
