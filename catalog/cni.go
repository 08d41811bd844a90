package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"
)

// CNI configures how the VPC CNI provides a node with addresses for pods. The zero value is not a default: see
// DefaultCNI.
type CNI struct {
	PrefixDelegation bool // ENABLE_PREFIX_DELEGATION: interfaces get /28 prefixes; only on nitro
	WarmENI          int  // WARM_ENI_TARGET: interfaces to spare; MinimumIP or WarmIP replace it
	WarmIP           int  // WARM_IP_TARGET: addresses to spare; 0 = not set
	MinimumIP        int  // MINIMUM_IP_TARGET: minimum number of addresses; 0 = not set
	WarmPrefix       int  // WARM_PREFIX_TARGET: prefixes to spare; MinimumIP or WarmIP replace it
	MaxENI           int  // MAX_ENI: maximum number of interfaces; 0 = as many as the type has
	// CustomNetwork is AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG: pods take their addresses from the subnet of their node's
	// ENIConfig, and the first interface, which is in the node's own subnet, holds none.
	CustomNetwork bool
	// ENIConfigLabel and ENIConfigAnnotation are the label and the annotation of a node that name its ENIConfig
	// (ENI_CONFIG_LABEL_DEF, ENI_CONFIG_ANNOTATION_DEF); "" without CustomNetwork.
	ENIConfigLabel, ENIConfigAnnotation string
	// PodENI is ENABLE_POD_ENI: nodes have a trunk interface, and each pod that requests vpc.amazonaws.com/pod-eni gets
	// a branch of it, with its own address and security groups.
	PodENI bool
	IPv6   bool // ENABLE_IPv6: pods take no IPv4 addresses
}

// eniConfigKey is the default of the label and the annotation that name the ENIConfig of a node.
const eniConfigKey = "k8s.amazonaws.com/eniConfig"

// DefaultENIConfig is the ENIConfig of nodes that name none.
const DefaultENIConfig = "default"

// DefaultCNI returns the settings of EKS's manifest of the VPC CNI.
func DefaultCNI() CNI { return CNI{WarmENI: 1, WarmPrefix: 1} }

// AutoModeCNI returns how the VPC CNI that is built into nodes of EKS Auto Mode is configured: with prefixes, or with
// single addresses (ipv4PrefixSize: "32" of the NodeClass), of which it keeps one to spare (Amazon EKS user guide,
// "Secondary IP Mode for Pods"). custom says that pods have subnets of their own (podSubnetSelectorTerms).
func AutoModeCNI(single, custom bool) CNI {
	c := DefaultCNI()
	if single {
		c = CNI{WarmIP: 1}
	}
	c.PrefixDelegation, c.CustomNetwork = !single, custom
	return c
}

// PrefixSize is the number of addresses of a delegated prefix, a /28.
const PrefixSize = 16

type cniNumber struct {
	name      string
	least     int
	otherwise int
	field     func(*CNI) *int
}

// cniNumbers are the numeric variables, with their minimum and the value used if they are absent or invalid.
var cniNumbers = []cniNumber{
	{"WARM_ENI_TARGET", 0, 1, func(c *CNI) *int { return &c.WarmENI }},
	{"WARM_IP_TARGET", 0, 0, func(c *CNI) *int { return &c.WarmIP }},
	{"MINIMUM_IP_TARGET", 0, 0, func(c *CNI) *int { return &c.MinimumIP }},
	{"WARM_PREFIX_TARGET", 0, 0, func(c *CNI) *int { return &c.WarmPrefix }},
	{"MAX_ENI", 1, 0, func(c *CNI) *int { return &c.MaxENI }},
}

// cniSwitches are the boolean variables. Their default is false.
var cniSwitches = []struct {
	name  string
	field func(*CNI) *bool
}{
	{"ENABLE_PREFIX_DELEGATION", func(c *CNI) *bool { return &c.PrefixDelegation }},
	{"AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG", func(c *CNI) *bool { return &c.CustomNetwork }},
	{"ENABLE_POD_ENI", func(c *CNI) *bool { return &c.PodENI }},
	{ipv6, func(c *CNI) *bool { return &c.IPv6 }},
}

// cniKeys are the variables that name a label or an annotation.
var cniKeys = []struct {
	name  string
	field func(*CNI) *string
}{
	{"ENI_CONFIG_LABEL_DEF", func(c *CNI) *string { return &c.ENIConfigLabel }},
	{"ENI_CONFIG_ANNOTATION_DEF", func(c *CNI) *string { return &c.ENIConfigAnnotation }},
}

const ipv6 = "ENABLE_IPv6"

// ReadCNI reads the environment of the container aws-node. Like the VPC CNI it replaces an invalid value with the
// default; problems names it. Source: amazon-vpc-cni-k8s v1.23, README.md and pkg/ipamd/ipamd.go.
func ReadCNI(env map[string]string) (c CNI, problems []string) {
	for _, n := range cniNumbers {
		into := n.field(&c)
		*into = n.otherwise
		text, set := env[n.name]
		if !set || text == "" {
			continue
		}
		v, err := strconv.Atoi(text)
		if err != nil || v < n.least {
			problems = append(problems, fmt.Sprintf("%s is %q: the VPC CNI takes a number of at least %d and uses %d instead",
				n.name, text, n.least, n.otherwise))
			continue
		}
		*into = v
	}
	for _, w := range cniSwitches {
		on, err := strconv.ParseBool(cmp.Or(env[w.name], "false"))
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s is %q: the VPC CNI takes true or false and uses false instead",
				w.name, env[w.name]))
		}
		*w.field(&c) = on
	}
	for _, k := range cniKeys {
		if c.CustomNetwork {
			*k.field(&c) = cmp.Or(env[k.name], eniConfigKey)
		}
	}
	if c.IPv6 {
		problems = append(problems, ipv6+" is true: it has no effect on simulated nodes")
	}
	return c, problems
}

// Targets returns the variables, with their values, that determine what nodes take from subnets. WARM_IP_TARGET and
// MINIMUM_IP_TARGET replace the other targets.
func (c CNI) Targets() (out []string) {
	number := func(name string, n int) {
		out = append(out, name+"="+strconv.Itoa(n))
	}
	for _, w := range cniSwitches {
		if *w.field(&c) {
			out = append(out, w.name+"=true")
		}
	}
	switch {
	case c.WarmIP > 0 || c.MinimumIP > 0:
		number("WARM_IP_TARGET", c.WarmIP)
		number("MINIMUM_IP_TARGET", c.MinimumIP)
	case c.PrefixDelegation:
		number("WARM_PREFIX_TARGET", c.WarmPrefix)
	default:
		number("WARM_ENI_TARGET", c.WarmENI)
	}
	if c.MaxENI > 0 {
		number("MAX_ENI", c.MaxENI)
	}
	return out
}

// CNIContainer is the name of the VPC CNI's DaemonSet, and of the container whose environment configures it.
const CNIContainer = "aws-node"

// CNIVariable reports whether ReadCNI reads a variable.
func CNIVariable(name string) bool {
	return cniVariables()[name]
}

var cniVariables = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	for _, n := range cniNumbers {
		out[n.name] = true
	}
	for _, w := range cniSwitches {
		out[w.name] = true
	}
	for _, k := range cniKeys {
		out[k.name] = true
	}
	return out
})

// ENIConfig returns the name of the ENIConfig of a node with these labels and annotations. The annotation takes
// precedence. Source: amazon-vpc-cni-k8s v1.23, pkg/eniconfig.
func (c CNI) ENIConfig(labels, annotations map[string]string) string {
	if name, ok := annotations[c.ENIConfigAnnotation]; ok {
		return name
	}
	if name, ok := labels[c.ENIConfigLabel]; ok {
		return name
	}
	return DefaultENIConfig
}

// Prefixes reports whether nodes of the type get prefixes: types on xen do not.
func (c CNI) Prefixes(t *Type) bool { return c.PrefixDelegation && t.Hypervisor != "xen" }

// ENIs returns how many interfaces a node of the type may have.
func (c CNI) ENIs(t *Type) int {
	if c.MaxENI > 0 {
		return min(c.MaxENI, t.MaxENIs)
	}
	return t.MaxENIs
}

// PodENIs returns how many interfaces of a node of the type may hold addresses of pods.
func (c CNI) PodENIs(t *Type) int { return max(c.ENIs(t)-c.NoPods(t), 0) }

// NoPods returns how many interfaces of a node of the type hold no addresses of pods: the first one under custom
// networking, and the trunk.
func (c CNI) NoPods(t *Type) (n int) {
	if c.Custom(t) {
		n++
	}
	if c.Branches(t) > 0 {
		n++
	}
	return n
}

// ReservedENIs returns how many interfaces of each node hold no pods because of custom networking; 0 if c is nil.
func (c *CNI) ReservedENIs() int {
	if c != nil && c.CustomNetwork {
		return 1
	}
	return 0
}

// Custom reports whether custom networking applies to nodes of the type: their first interface is in another subnet
// than their pods.
func (c CNI) Custom(t *Type) bool { return c.CustomNetwork && !t.NoENIs() }

// Branches returns how many pods of a node of the type can have their own interface. Source:
// amazon-vpc-resource-controller-k8s v1.8, pkg/aws/vpc/limits.go.
func (c CNI) Branches(t *Type) int {
	if !c.PodENI || t.NoENIs() {
		return 0
	}
	return t.BranchENIs
}

// NoENIs reports whether a type's interfaces are not those of EC2. Such a node takes an address for each pod when the
// pod starts, and keeps none to spare.
func (t *Type) NoENIs() bool { return t.Pods > 0 || t.MaxENIs == 0 || t.IPv4PerENI < 2 }

// PodAddresses returns how many pods with their own address a node of the type can run.
func (c CNI) PodAddresses(t *Type) int {
	switch {
	case t.Pods > 0:
		return t.Pods
	case t.NoENIs():
		return int(MaxPods(t, 0, false))
	case c.Prefixes(t):
		return c.PodENIs(t) * (t.IPv4PerENI - 1) * PrefixSize
	}
	return c.PodENIs(t) * (t.IPv4PerENI - 1)
}

// Unaddressed returns how many pods of a node of the type would have no address if its kubelet accepted takes pods,
// host of them were on the host network, and as many as possible had their own interface.
func (c CNI) Unaddressed(t *Type, takes, host int) int {
	return max(takes-host-c.PodAddresses(t)-c.Branches(t), 0)
}

// Unkept returns the variable of the warm target that a node of the type cannot keep even without pods, its value,
// and the most that is possible; "" if it can keep all that apply. Such a node takes every address that its
// interfaces hold.
func (c CNI) Unkept(t *Type) (variable string, value, most int) {
	switch addresses := c.PodAddresses(t); {
	case t.NoENIs():
		return "", 0, 0
	case c.WarmIP > addresses:
		return "WARM_IP_TARGET", c.WarmIP, addresses
	case c.MinimumIP > addresses:
		return "MINIMUM_IP_TARGET", c.MinimumIP, addresses
	case c.WarmIP > 0 || c.MinimumIP > 0:
		return "", 0, 0
	case c.Prefixes(t) && c.WarmPrefix*PrefixSize > addresses:
		return "WARM_PREFIX_TARGET", c.WarmPrefix, addresses / PrefixSize
	case !c.Prefixes(t) && c.WarmENI > c.PodENIs(t):
		return "WARM_ENI_TARGET", c.WarmENI, c.PodENIs(t)
	}
	return "", 0, 0
}

// Holding is what a node takes from subnets.
type Holding struct {
	ENIs      int // including the first; each has its own address
	Addresses int // for pods, including those of prefixes
	Prefixes  int
}

// Total returns the number of addresses taken from subnets.
func (h Holding) Total() int { return h.ENIs + h.Addresses }

// FromPodSubnet returns how many addresses are taken from the pods' subnet: under custom networking the address of
// the first interface comes from another subnet.
func (c CNI) FromPodSubnet(t *Type, h Holding) int {
	if c.Custom(t) {
		return h.Total() - 1
	}
	return h.Total()
}

// Holding returns what a node of the type takes from subnets for pods with their own addresses, if its kubelet
// accepts maxPods pods: what the pods need and what the warm targets request. Source: amazon-vpc-cni-k8s v1.23,
// pkg/ipamd/ipamd.go; where that project's documents on warm targets differ from the code, Holding follows the code.
func (c CNI) Holding(t *Type, pods, maxPods int) Holding {
	perENI, enis, without := t.IPv4PerENI-1, c.PodENIs(t), c.NoPods(t)
	switch {
	case t.NoENIs():
		return Holding{ENIs: 1, Addresses: min(pods, c.PodAddresses(t))}
	case enis == 0:
		return Holding{ENIs: without}
	case c.Prefixes(t):
		p := c.prefixes(pods)
		p = min(max(p, 1), enis*perENI, max(ceilDiv(maxPods, PrefixSize), 1))
		return Holding{ENIs: without + max(ceilDiv(p, perENI), 1), Addresses: p * PrefixSize, Prefixes: p}
	case c.WarmIP > 0 || c.MinimumIP > 0:
		n := min(max(pods+c.WarmIP, c.MinimumIP), enis*perENI)
		return Holding{ENIs: without + max(ceilDiv(n, perENI), 1), Addresses: n}
	}
	n := ceilDiv(pods, perENI) + c.WarmENI
	if c.WarmENI == 0 {
		n = pods/perENI + 1
	}
	n = max(min(n, enis, max(ceilDiv(maxPods, perENI), 1)), 1)
	return Holding{ENIs: without + n, Addresses: n * perENI}
}

// prefixes returns how many prefixes the targets request.
func (c CNI) prefixes(pods int) int {
	if c.WarmIP > 0 || c.MinimumIP > 0 {
		return max(ceilDiv(pods+c.WarmIP, PrefixSize), ceilDiv(c.MinimumIP, PrefixSize))
	}
	return ceilDiv(pods, PrefixSize) + c.WarmPrefix
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// AddressStep says that nodes with up to Pods pods take Total addresses from the subnet of their pods.
type AddressStep struct{ Pods, Total int }

// Steps returns what nodes of the type take from the subnet of their pods, up to as many pods as their kubelets
// accept: in ascending order, one step for each total. A pod with its own interface takes an address, too: it counts
// as one of the others while there is room for those.
func (c CNI) Steps(t *Type, maxPods int) []AddressStep {
	var out []AddressStep
	room := c.PodAddresses(t)
	for n := range max(min(maxPods, room+c.Branches(t)), 0) + 1 {
		total := c.FromPodSubnet(t, c.Holding(t, min(n, room), maxPods)) + max(n-room, 0)
		if last := len(out) - 1; last >= 0 && out[last].Total == total {
			out[last].Pods = n
			continue
		}
		out = append(out, AddressStep{n, total})
	}
	return slices.Clip(out)
}
