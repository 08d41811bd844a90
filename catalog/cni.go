package catalog

import (
	"fmt"
	"slices"
	"strconv"
)

// CNI is how the VPC CNI provides a node with addresses for pods. The zero value is not a default: see DefaultCNI.
type CNI struct {
	PrefixDelegation bool // ENABLE_PREFIX_DELEGATION: interfaces get /28 prefixes; only on nitro
	WarmENI          int  // WARM_ENI_TARGET: interfaces to spare; MinimumIP or WarmIP replace it
	WarmIP           int  // WARM_IP_TARGET: addresses to spare; 0 = not set
	MinimumIP        int  // MINIMUM_IP_TARGET: addresses at least; 0 = not set
	WarmPrefix       int  // WARM_PREFIX_TARGET: prefixes to spare; MinimumIP or WarmIP replace it
	MaxENI           int  // MAX_ENI: interfaces at most; 0 = as many as the type has
	// OtherSubnets is custom networking (AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG) or ENABLE_IPv6: pods take no IPv4 addresses
	// from the subnet of their node.
	OtherSubnets bool
}

// DefaultCNI is what EKS's manifest of the VPC CNI sets.
func DefaultCNI() CNI { return CNI{WarmENI: 1, WarmPrefix: 1} }

// PrefixSize is the number of addresses of a delegated prefix, a /28.
const PrefixSize = 16

type cniNumber struct {
	name      string
	least     int
	otherwise int
	field     func(*CNI) *int
}

const prefixDelegation = "ENABLE_PREFIX_DELEGATION"

// cniNumbers are the variables with a number, and their values where the variable is absent or not usable.
var cniNumbers = []cniNumber{
	{"WARM_ENI_TARGET", 0, 1, func(c *CNI) *int { return &c.WarmENI }},
	{"WARM_IP_TARGET", 0, 0, func(c *CNI) *int { return &c.WarmIP }},
	{"MINIMUM_IP_TARGET", 0, 0, func(c *CNI) *int { return &c.MinimumIP }},
	{"WARM_PREFIX_TARGET", 0, 0, func(c *CNI) *int { return &c.WarmPrefix }},
	{"MAX_ENI", 1, 0, func(c *CNI) *int { return &c.MaxENI }},
}

const (
	customNetwork = "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG"
	ipv6          = "ENABLE_IPv6"
)

// cniUnsupported are switches of the VPC CNI that have no effect on simulated nodes.
var cniUnsupported = []string{customNetwork, "ENABLE_POD_ENI", ipv6}

// ReadCNI reads the environment of the container aws-node. Like the VPC CNI it takes the default instead of a value
// that it cannot use; problems name these. Source: amazon-vpc-cni-k8s v1.23, README.md and pkg/ipamd/ipamd.go.
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
	if text := env[prefixDelegation]; text != "" {
		on, err := strconv.ParseBool(text)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s is %q: the VPC CNI takes true or false and uses false instead",
				prefixDelegation, text))
		}
		c.PrefixDelegation = on
	}
	for _, name := range cniUnsupported {
		if on, err := strconv.ParseBool(env[name]); err == nil && on {
			problems = append(problems, name+" is true: it has no effect on simulated nodes")
			c.OtherSubnets = c.OtherSubnets || name == customNetwork || name == ipv6
		}
	}
	return c, problems
}

// CNIContainer is the name of the VPC CNI's DaemonSet, and of the container whose environment configures it.
const CNIContainer = "aws-node"

// CNIVariable reports whether ReadCNI reads a variable.
func CNIVariable(name string) bool {
	known := slices.ContainsFunc(cniNumbers, func(n cniNumber) bool { return n.name == name })
	return known || name == prefixDelegation || slices.Contains(cniUnsupported, name)
}

// Prefixes reports whether nodes of the type get prefixes: a type on xen does not.
func (c CNI) Prefixes(t *Type) bool { return c.PrefixDelegation && t.Hypervisor != "xen" }

// ENIs returns how many interfaces a node of the type may have.
func (c CNI) ENIs(t *Type) int {
	if c.MaxENI > 0 {
		return min(c.MaxENI, t.MaxENIs)
	}
	return t.MaxENIs
}

// NoENIs reports whether the interfaces of a type are not those of EC2. Such a node takes an address for each pod when
// the pod starts, and has none to spare.
func (t *Type) NoENIs() bool { return t.Pods > 0 || t.MaxENIs == 0 || t.IPv4PerENI < 2 }

// PodAddresses returns how many pods with an address of their own a node of the type can run.
func (c CNI) PodAddresses(t *Type) int {
	switch {
	case t.Pods > 0:
		return t.Pods
	case t.NoENIs():
		return int(MaxPods(t, 0, false))
	case c.Prefixes(t):
		return c.ENIs(t) * (t.IPv4PerENI - 1) * PrefixSize
	}
	return c.ENIs(t) * (t.IPv4PerENI - 1)
}

// Unaddressed returns how many pods of a node of the type would have no address if its kubelet took so many, of which
// host are on the host network.
func (c CNI) Unaddressed(t *Type, takes, host int) int { return max(takes-host-c.PodAddresses(t), 0) }

// Holding is what a node takes from its subnet.
type Holding struct {
	ENIs      int // interfaces, the first one included; each has an address of its own
	Addresses int // for pods; those of prefixes included
	Prefixes  int
}

// Total returns the number of addresses that the subnet has to give.
func (h Holding) Total() int { return h.ENIs + h.Addresses }

// Holding returns what a node of the type takes from its subnet for pods with addresses of their own, if its kubelet
// takes maxPods pods: what the pods need and what the warm targets ask for. Source: amazon-vpc-cni-k8s v1.23,
// pkg/ipamd/ipamd.go; where that project's documents on warm targets and the code differ, as the code does.
func (c CNI) Holding(t *Type, pods, maxPods int) Holding {
	perENI, enis := t.IPv4PerENI-1, c.ENIs(t)
	switch {
	case t.NoENIs():
		return Holding{ENIs: 1, Addresses: min(pods, c.PodAddresses(t))}
	case c.Prefixes(t):
		p := c.prefixes(pods)
		p = min(max(p, 1), enis*perENI, max(ceilDiv(maxPods, PrefixSize), 1))
		return Holding{ENIs: max(ceilDiv(p, perENI), 1), Addresses: p * PrefixSize, Prefixes: p}
	case c.WarmIP > 0 || c.MinimumIP > 0:
		n := min(max(pods+c.WarmIP, c.MinimumIP), enis*perENI)
		return Holding{ENIs: max(ceilDiv(n, perENI), 1), Addresses: n}
	}
	n := ceilDiv(pods, perENI) + c.WarmENI
	if c.WarmENI == 0 {
		n = pods/perENI + 1
	}
	n = max(min(n, enis, max(ceilDiv(maxPods, perENI), 1)), 1)
	return Holding{ENIs: n, Addresses: n * perENI}
}

// prefixes returns how many prefixes the targets ask for.
func (c CNI) prefixes(pods int) int {
	if c.WarmIP > 0 || c.MinimumIP > 0 {
		return max(ceilDiv(pods+c.WarmIP, PrefixSize), ceilDiv(c.MinimumIP, PrefixSize))
	}
	return ceilDiv(pods, PrefixSize) + c.WarmPrefix
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// AddressStep says what nodes with up to so many pods take from their subnet.
type AddressStep struct{ Pods, Total int }

// Steps returns what nodes of the type take from their subnet by their pods, up to the pods that their kubelets take:
// ascending, a step for each total.
func (c CNI) Steps(t *Type, maxPods int) []AddressStep {
	var out []AddressStep
	for n := range max(min(maxPods, c.PodAddresses(t)), 0) + 1 {
		total := c.Holding(t, n, maxPods).Total()
		if last := len(out) - 1; last >= 0 && out[last].Total == total {
			out[last].Pods = n
			continue
		}
		out = append(out, AddressStep{n, total})
	}
	return slices.Clip(out)
}
