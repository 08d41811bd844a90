// Package regional connects the node simulator to a simulated region.
package regional

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/region"
	"github.com/nodeless/nodeless/region/nodesim"
)

// Instances returns a region as a source of instances.
func Instances(r *region.Region) nodesim.Instances { return instances{r} }

// instances inherits SetCNI, AssignPodIP, ReleasePodIP and SetBranchCooldown from the region.
type instances struct{ *region.Region }

// Watch translates the region's events, starting with the boot of each instance.
func (m instances) Watch(ctx context.Context) <-chan nodesim.Event {
	out := make(chan nodesim.Event)
	go func() {
		defer close(out)
		for e := range m.Region.Watch(ctx) {
			kind, ok := map[region.EventKind]nodesim.EventKind{
				region.EventBooted: nodesim.Booted, region.EventShuttingDown: nodesim.Ending, region.EventTerminated: nodesim.Gone,
			}[e.Kind]
			if !ok {
				continue
			}
			select {
			case out <- nodesim.Event{Kind: kind, Instance: instanceOf(m.Region, e.Instance)}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

func instanceOf(r *region.Region, i region.Instance) nodesim.Instance {
	return nodesim.Instance{
		ID: i.ID, ProviderID: fmt.Sprintf("aws:///%s/%s", i.Zone, i.ID), IP: i.PrivateIP,
		Name: nodesim.NodeName(i.UserData, i.PrivateDNS, i.ID),
		Type: r.Type(i.Type), Zone: i.Zone, ZoneID: i.ZoneID, Region: r.Name(), UserData: i.UserData,
		Windows: i.Windows, RootDisk: i.NodeDiskGiB << 30, Labels: priced(i), Claim: i.Tags[tagClaim],
	}
}

// tagClaim is Karpenter's tag that names the NodeClaim of an instance.
const tagClaim = "karpenter.sh/nodeclaim"

// labelPrice tells eks-node-viewer the hourly price of an instance (eks-node-viewer, pkg/client/controller.go).
const labelPrice = "eks-node-viewer/instance-price"

// priced returns the price label of an instance whose type is not one of AWS's: the viewer knows only AWS's prices.
func priced(i region.Instance) map[string]string {
	if _, known := catalog.Lookup(i.Type); known {
		return nil
	}
	return map[string]string{labelPrice: strconv.FormatFloat(float64(i.PriceMicros)/1e6, 'f', -1, 64)}
}

// SetPodNetwork sets the subnet and security groups of an instance's pod interfaces under custom networking.
func (m instances) SetPodNetwork(id, subnet string, groups []string) error {
	return m.Region.SetPodNetwork(id, region.PodNetwork{SubnetID: subnet, SecurityGroups: groups})
}

// SelectPodNetwork sets the network that selectors select for an instance's pod interfaces.
func (m instances) SelectPodNetwork(id string, subnets, groups []nodesim.Selector) error {
	i, _ := m.Instance(id)
	network, err := podNetworkIn(m.Region, i.Zone, subnets, groups)
	if err != nil {
		return err
	}
	return m.Region.SetPodNetwork(id, network)
}

// podNetworkIn returns the selected subnet in a zone that has the most free addresses, and the selected security
// groups.
func podNetworkIn(r *region.Region, zone string, subnets, groups []nodesim.Selector) (out region.PodNetwork, _ error) {
	most := -1
	for _, s := range r.Subnets() {
		if s.Zone == zone && s.Free > most && nodesim.Selects(subnets, s.ID, s.Tags) {
			out.SubnetID, most = s.ID, s.Free
		}
	}
	for _, g := range r.SecurityGroups() {
		if nodesim.Selects(groups, g.ID, g.Tags) {
			out.SecurityGroups = append(out.SecurityGroups, g.ID)
		}
	}
	switch {
	case out.SubnetID == "":
		return out, fmt.Errorf("spec.podSubnetSelectorTerms selects no subnet in %s", zone)
	case len(out.SecurityGroups) == 0:
		return out, errors.New("spec.podSecurityGroupSelectorTerms selects no security group")
	}
	return out, nil
}

// PodsWithIP returns the UIDs of the pods that hold an address.
func (m instances) PodsWithIP() []string { return slices.Collect(maps.Keys(m.PodAddresses())) }

// AttachTrunk attaches a trunk interface to an instance, unless it has one.
func (m instances) AttachTrunk(id string) error {
	_, err := m.Region.AttachTrunk(id)
	return err
}

// AssignBranch assigns a pod a branch of its instance's trunk.
func (m instances) AssignBranch(id, podUID string, groups []string) (nodesim.Branch, error) {
	b, err := m.Region.AssignBranch(id, podUID, groups)
	if err != nil {
		return nodesim.Branch{}, err
	}
	return nodesim.Branch{
		ID: b.ID, MAC: b.MAC(), IP: b.PrivateIP, VLAN: b.VLAN, SubnetCIDR: b.SubnetCIDR, AssociationID: b.AssociationID,
	}, nil
}
