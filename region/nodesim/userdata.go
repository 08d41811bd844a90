package nodesim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/catalog"
)

// kubelet holds the kubelet settings from an instance and its user data.
type kubelet struct {
	Cluster        string
	Labels         map[string]string
	Taints         []corev1.Taint
	MaxPods        int
	PodsPerCore    int
	KubeReserved   map[string]string
	SystemReserved map[string]string
	EvictionHard   map[string]string
	RAID0          bool // node storage is on the local NVMe disks
	Bottlerocket   bool // otherwise Amazon Linux 2023, unless Windows is set
	Windows        string
	NamedByID      bool  // the Node is named after the instance's ID, as in EKS Auto Mode
	RootDisk       int64 // of the instance, bytes; 0 = the image's default
}

// nodeConfig is the part of nodeadm's NodeConfig (node.eks.aws/v1alpha1, AL2023) that affects the Node.
type nodeConfig struct {
	Kind string `json:"kind"`
	Spec struct {
		Cluster struct {
			Name string `json:"name"`
		} `json:"cluster"`
		Instance struct {
			LocalStorage struct {
				Strategy string `json:"strategy"`
			} `json:"localStorage"`
		} `json:"instance"`
		Kubelet struct {
			Config struct {
				MaxPods            int               `json:"maxPods"`
				PodsPerCore        int               `json:"podsPerCore"`
				RegisterWithTaints []corev1.Taint    `json:"registerWithTaints"`
				KubeReserved       map[string]string `json:"kubeReserved"`
				SystemReserved     map[string]string `json:"systemReserved"`
				EvictionHard       map[string]string `json:"evictionHard"`
			} `json:"config"`
			Flags []string `json:"flags"`
		} `json:"kubelet"`
	} `json:"spec"`
}

// parseUserData reads kubelet settings: AL2023's NodeConfig documents, plain or as MIME parts, of which later ones
// override earlier ones key by key; or Bottlerocket's settings. User data without a cluster name is an error: the
// instance would never join.
func parseUserData(data []byte) (kubelet, error) {
	k, found, err := bottlerocketSettings(data)
	if found || err != nil {
		return k, err
	}
	parts, err := mimeParts(data)
	if err != nil {
		return k, fmt.Errorf("user data: %w", err)
	}
	var flags []string // of all parts; as with the kubelet, they override the configuration
	for _, p := range parts {
		var c nodeConfig
		if err := yaml.Unmarshal(p, &c); err != nil || c.Kind != "NodeConfig" {
			continue // a shell script or another document
		}
		k.merge(c)
		flags = append(flags, c.Spec.Kubelet.Flags...)
	}
	if err := k.setFlags(strings.Join(flags, " ")); err != nil {
		return k, fmt.Errorf("user data: spec.kubelet.flags: %w", err)
	}
	switch {
	case k.Cluster != "":
		return k, nil
	case bytes.Contains(data, []byte("/etc/eks/bootstrap.sh")):
		return k, errors.New("user data: /etc/eks/bootstrap.sh is Amazon Linux 2's, which EKS has no images of any more: " +
			"use an EC2NodeClass with the alias al2023@latest, or write a NodeConfig (node.eks.aws/v1alpha1)")
	}
	return k, errors.New("user data: it has neither a NodeConfig with spec.cluster.name (AL2023) " +
		"nor TOML with settings.kubernetes.cluster-name " +
		"(Bottlerocket): this instance cannot join a cluster")
}

func (k *kubelet) merge(c nodeConfig) {
	kc := c.Spec.Kubelet.Config
	if c.Spec.Cluster.Name != "" {
		k.Cluster = c.Spec.Cluster.Name
	}
	if kc.MaxPods > 0 {
		k.MaxPods = kc.MaxPods
	}
	if kc.PodsPerCore > 0 {
		k.PodsPerCore = kc.PodsPerCore
	}
	if kc.RegisterWithTaints != nil {
		k.Taints = kc.RegisterWithTaints
	}
	if kc.KubeReserved != nil {
		k.KubeReserved = kc.KubeReserved
	}
	if kc.SystemReserved != nil {
		k.SystemReserved = kc.SystemReserved
	}
	if kc.EvictionHard != nil {
		k.EvictionHard = kc.EvictionHard
	}
	if strategy := c.Spec.Instance.LocalStorage.Strategy; strategy != "" {
		k.RAID0 = strategy == "RAID0"
	}
}

// settings converts the settings to the catalogue's type.
func (k kubelet) settings() catalog.Kubelet {
	out := catalog.Kubelet{
		PodsPerCore: k.PodsPerCore, KubeReserved: reserved(k.KubeReserved), SystemReserved: reserved(k.SystemReserved),
		EvictionHardMemory:  threshold(k.EvictionHard["memory.available"]),
		EvictionHardStorage: threshold(k.EvictionHard["nodefs.available"]),
		InstanceStoreRAID0:  k.RAID0, ReserveByPods: k.Bottlerocket, Windows: k.Windows != "",
	}
	if k.RootDisk > 0 {
		out.RootVolumeBytes = &k.RootDisk
	}
	if k.MaxPods > 0 {
		out.MaxPods = ptr.To(int64(k.MaxPods))
	}
	return out
}

func reserved(amounts map[string]string) catalog.Amounts {
	var out catalog.Amounts
	if q, err := resource.ParseQuantity(amounts["cpu"]); err == nil {
		out.CPU = ptr.To(q.MilliValue())
	}
	out.Memory, out.Storage = wholeBytes(amounts["memory"]), wholeBytes(amounts["ephemeral-storage"])
	return out
}

// wholeBytes parses a quantity of memory or storage; nil if it is absent or invalid.
func wholeBytes(s string) *int64 {
	q, err := resource.ParseQuantity(s)
	if err != nil {
		return nil
	}
	return ptr.To(q.Value())
}

// threshold parses an amount or a percentage; nil if it is absent or invalid.
func threshold(s string) *catalog.Threshold {
	if percent, ok := strings.CutSuffix(s, "%"); ok {
		p, err := strconv.ParseFloat(percent, 64)
		if err != nil {
			return nil
		}
		return &catalog.Threshold{Percent: p}
	}
	if n := wholeBytes(s); n != nil {
		return &catalog.Threshold{Bytes: *n}
	}
	return nil
}

// mimeParts splits a MIME multipart document; any other document is a single part.
func mimeParts(data []byte) ([][]byte, error) {
	if !bytes.Contains(data, []byte("multipart/mixed")) {
		return [][]byte{data}, nil
	}
	m, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("MIME header: %w", err)
	}
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		return nil, fmt.Errorf("MIME content type: %w", err)
	}
	var parts [][]byte
	for r := multipart.NewReader(m.Body, params["boundary"]); ; {
		p, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return parts, nil
		}
		if err != nil {
			return nil, fmt.Errorf("MIME part %d: %w", len(parts)+1, err)
		}
		body, err := io.ReadAll(io.LimitReader(p, 1<<20))
		if err != nil {
			return nil, fmt.Errorf("MIME part %d: %w", len(parts)+1, err)
		}
		parts = append(parts, body)
	}
}

// settings is the part of Bottlerocket's settings that affects the Node (bottlerocket.dev, "settings.kubernetes" and
// "settings.bootstrap-commands").
type settings struct {
	Settings struct {
		Kubernetes struct {
			ClusterName    string            `toml:"cluster-name"`
			NameSource     string            `toml:"hostname-override-source"` // private-dns-name or instance-id
			MaxPods        int               `toml:"max-pods"`
			NodeLabels     map[string]string `toml:"node-labels"`
			NodeTaints     map[string]any    `toml:"node-taints"` // "VALUE:EFFECT", or a list of them
			KubeReserved   map[string]string `toml:"kube-reserved"`
			SystemReserved map[string]string `toml:"system-reserved"`
			EvictionHard   map[string]string `toml:"eviction-hard"`
		} `toml:"kubernetes"`
		BootstrapCommands map[string]bootstrapCommand `toml:"bootstrap-commands"`
	} `toml:"settings"`
}

// bootstrapCommand is a list of commands that run before the kubelet starts.
type bootstrapCommand struct {
	Commands [][]string `toml:"commands"`
	Mode     string     `toml:"mode"` // always, once or off
}

// mountsLocalDisks reports whether the commands put the kubelet's directory on the local NVMe disks. Without --dirs,
// apiclient binds all directories that it can.
func (c bootstrapCommand) mountsLocalDisks() bool {
	bound := slices.ContainsFunc(c.Commands, func(words []string) bool {
		return len(words) >= 3 && slices.Equal(words[:3], []string{"apiclient", "ephemeral-storage", "bind"}) &&
			(len(words) == 3 || slices.Contains(words, "/var/lib/kubelet"))
	})
	return bound && (c.Mode == "always" || c.Mode == "once")
}

// bottlerocketSettings reads user data in TOML; found is false if it is not TOML or names no cluster.
func bottlerocketSettings(data []byte) (k kubelet, found bool, err error) {
	k.Labels = map[string]string{}
	var s settings
	if toml.Unmarshal(data, &s) != nil || s.Settings.Kubernetes.ClusterName == "" {
		return k, false, nil //nolint:nilerr // other user data
	}
	from := s.Settings.Kubernetes
	k = kubelet{
		Cluster: from.ClusterName, Labels: from.NodeLabels, MaxPods: from.MaxPods, Bottlerocket: true,
		NamedByID:    from.NameSource == "instance-id",
		KubeReserved: from.KubeReserved, SystemReserved: from.SystemReserved, EvictionHard: from.EvictionHard,
	}
	for _, c := range s.Settings.BootstrapCommands {
		k.RAID0 = k.RAID0 || c.mountsLocalDisks()
	}
	for _, key := range slices.Sorted(maps.Keys(from.NodeTaints)) {
		list, ok := from.NodeTaints[key].([]any)
		if !ok {
			list = []any{from.NodeTaints[key]}
		}
		for _, v := range list {
			value, effect, ok := strings.Cut(fmt.Sprint(v), ":")
			if !ok {
				return k, true, fmt.Errorf(`user data: settings.kubernetes.node-taints.%q is %q, want "VALUE:EFFECT"`, key, v)
			}
			k.Taints = append(k.Taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
		}
	}
	return k, true, nil
}

// NodeName returns the name under which an instance registers: its private DNS name, or its ID if the user data says
// so.
func NodeName(userData []byte, privateDNS, id string) string {
	if k, found, err := bottlerocketSettings(userData); found && err == nil && k.NamedByID {
		return id
	}
	return privateDNS
}

// osImage returns the name of the instance's operating system.
func (k kubelet) osImage() string {
	switch {
	case k.Windows != "":
		return "Windows Server " + k.Windows + " Datacenter (simulated)"
	case k.NamedByID:
		return "Bottlerocket (EKS Auto) (simulated)"
	case k.Bottlerocket:
		return "Bottlerocket OS (simulated)"
	}
	return "Amazon Linux 2023 (simulated)"
}
