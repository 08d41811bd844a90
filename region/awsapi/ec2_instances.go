package awsapi

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/nodeless/nodeless/region"
)

// dryRun ends a call that was only a trial, after its parameters were read.
func (c *call) dryRun() error {
	trial := c.form.boolean("DryRun")
	if err := c.form.fail(); err != nil {
		return err
	}
	if trial {
		return failure(412, "DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
	}
	return nil
}

func createFleet(c *call) (any, error) {
	q := c.form.fleet()
	if err := c.dryRun(); err != nil {
		return nil, err
	}
	result, err := c.region.CreateFleet(q)
	if err != nil {
		return nil, err
	}
	return fleetXML{
		FleetID: result.FleetID,
		Errors: setOf(result.Errors, func(e region.FleetError) fleetErrorXML {
			return fleetErrorXML{
				TemplateAndOverrides: overrideOf(e.Override), Lifecycle: e.CapacityType, Code: e.Code,
				Message: e.Message,
			}
		}),
		Instances: setOf(result.Launched, func(l region.FleetLaunch) fleetInstanceXML {
			return fleetInstanceXML{
				TemplateAndOverrides: overrideOf(l.Override), Lifecycle: l.CapacityType,
				InstanceIDs: items(l.IDs...), InstanceType: l.Override.InstanceType,
			}
		}),
	}, nil
}

func overrideOf(o region.Override) templateAndOverridesXML {
	x := templateAndOverridesXML{
		Specification: templateSpecXML{ID: o.TemplateID, Version: o.TemplateVersion},
		Overrides: overridesXML{
			InstanceType: o.InstanceType, SubnetID: o.SubnetID, AvailabilityZone: o.Zone,
			ImageID: o.ImageID,
		},
	}
	if o.Priority != 0 {
		x.Overrides.Priority = strconv.FormatFloat(o.Priority, 'f', -1, 64)
	}
	return x
}

type terminateAnswer struct {
	Instances set[stateChangeXML] `xml:"instancesSet"`
}

func terminateInstances(c *call) (any, error) {
	c.form.require("InstanceId")
	if err := c.dryRun(); err != nil {
		return nil, err
	}
	changes, err := c.region.TerminateInstances(c.form.strs("InstanceId"))
	return terminateAnswer{Instances: setOf(changes, func(s region.StateChange) stateChangeXML {
		return stateChangeXML{InstanceID: s.ID, CurrentState: stateOf(s.Current), PreviousState: stateOf(s.Previous)}
	})}, err
}

func stateOf(s region.State) stateXML { return stateXML{Code: s.Code(), Name: string(s)} }

// surroundings are what an instance names only by id.
type surroundings struct {
	groups   map[string]string // names by id
	profiles map[string]region.InstanceProfile
}

func (c *call) surroundings() surroundings {
	s := surroundings{groups: map[string]string{}, profiles: map[string]region.InstanceProfile{}}
	for _, g := range c.region.SecurityGroups() {
		s.groups[g.ID] = g.Name
	}
	for _, p := range c.region.InstanceProfiles("/") {
		s.profiles[p.Name] = p
	}
	return s
}

// profile is the reference to an instance profile; one that is gone is known by its name alone.
func (s surroundings) profile(name string) *profileRefXML {
	p := s.profiles[name]
	return &profileRefXML{
		ARN: "arn:aws:iam::" + region.AccountID + ":instance-profile" + cmp.Or(p.Path, "/") + name,
		ID:  p.ID,
	}
}

func (s surroundings) instance(i region.Instance) instanceXML {
	x := instanceXML{
		InstanceID: i.ID, ImageID: i.ImageID, State: stateOf(i.State), PrivateDNSName: i.PrivateDNS, InstanceType: i.Type,
		LaunchTime:      stamp(i.LaunchedAt),
		Placement:       placementXML{AvailabilityZone: i.Zone, AvailabilityZoneID: i.ZoneID, Tenancy: "default"},
		Monitoring:      monitoringXML{State: "disabled"},
		SourceDestCheck: true, Architecture: i.Architecture, RootDeviceType: "ebs", RootDeviceName: region.RootDevice,
		VirtualizationType:    "hvm",
		SpotInstanceRequestID: i.SpotRequestID, ClientToken: i.ClientToken, Hypervisor: "xen", ENASupport: true,
		PlatformDetails: "Linux/UNIX",
		TagSet:          tagsOf(i.Tags),
	}
	if i.CapacityType == region.Spot {
		x.Lifecycle = region.Spot
	}
	if i.ReasonCode != "" {
		x.StateReason = &reasonXML{Code: i.ReasonCode, Message: i.ReasonMessage}
	}
	for _, g := range i.SecurityGroups {
		x.GroupSet.Items = append(x.GroupSet.Items, groupXML{GroupID: g, GroupName: s.groups[g]})
	}
	if i.InstanceProfile != "" {
		x.IAMInstanceProfile = s.profile(i.InstanceProfile)
	}
	if i.Monitoring {
		x.Monitoring.State = "enabled"
	}
	if i.State == region.Terminated { // EC2 does not show the network of a terminated instance
		x.PrivateDNSName = ""
		return x
	}
	x.SubnetID, x.VpcID, x.PrivateIPAddress = i.SubnetID, region.VPCID, i.PrivateIP.String()
	x.BlockDeviceMapping = setOf(i.Devices, func(d region.BlockDevice) attachedXML {
		return attachedXML{Name: d.Name, EBS: attachedEBSXML{
			VolumeID: d.VolumeID, Status: "attached",
			AttachTime: stamp(i.LaunchedAt), DeleteOnTermination: !d.Keep,
		}}
	})
	x.NetworkInterfaces = items(interfaceOf(i, x.GroupSet))
	return x
}

// tagsOf is tags in the order of their keys.
func tagsOf(tags map[string]string) set[tagXML] {
	return setOf(slices.Sorted(maps.Keys(tags)), func(k string) tagXML { return tagXML{Key: k, Value: tags[k]} })
}

// describeInstanceStatus answers about running instances only, unless all are asked for.
func describeInstanceStatus(c *call) (any, error) {
	all := setOf(c.region.Instances(), func(i region.Instance) instanceStatusXML {
		a := i.Ailment
		out := instanceStatusXML{
			InstanceID: i.ID, AvailabilityZone: i.Zone, AvailabilityZoneID: i.ZoneID, State: stateOf(i.State),
			System: checkSince(a.SystemSince), Instance: checkSince(a.InstanceSince), AttachedEBS: checkSince(time.Time{}),
		}
		if a.Event != "" {
			out.Events = items(eventXML{
				ID: "instance-event-" + i.ID[min(2, len(i.ID)):], Code: a.Event,
				Description: "The instance is scheduled for maintenance", NotBefore: stamp(a.EventAt),
			})
		}
		return out
	}).Items
	id := func(s instanceStatusXML) string { return s.InstanceID }
	found, err := chosenFrom(c, all, instanceNames(id))
	if err != nil {
		return nil, err
	}
	if !c.form.boolean("IncludeAllInstances") {
		found = slices.DeleteFunc(slices.Clone(found), func(s instanceStatusXML) bool { return s.State.Name != "running" })
	}
	return paged(c, "instanceStatusSet", found, 1000, id)
}

// checkSince is the summary of a check that fails since then; zero = it passes.
func checkSince(since time.Time) statusSummaryXML {
	if since.IsZero() {
		return statusSummaryXML{Status: "ok", Details: items(statusDetailXML{Name: "reachability", Status: "passed"})}
	}
	return statusSummaryXML{
		Status:  "impaired",
		Details: items(statusDetailXML{Name: "reachability", Status: "failed", ImpairedSince: stamp(since)}),
	}
}
