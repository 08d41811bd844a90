package region

// fulfil launches instances until the total is reached or every option was tried. The caller holds the lock and commits.
func (r *Region) fulfil(q FleetRequest, options []option, result *FleetResult) {
	left := q.Total
	for _, x := range options {
		if left == 0 {
			return
		}
		result.Templates[x.template.Name] = x.template.ID
		launch := FleetLaunch{Override: x.o, CapacityType: q.CapacityType}
		var failure *APIError
		for left > 0 && failure == nil {
			var i *Instance
			if i, failure = r.launch(x, q.CapacityType, q.InstanceTags, q.ClientToken, result.FleetID); failure == nil {
				launch.IDs = append(launch.IDs, i.ID)
				left--
			}
		}
		if len(launch.IDs) > 0 {
			result.Launched = append(result.Launched, launch)
		}
		if failure != nil {
			result.Errors = append(result.Errors, FleetError{Override: x.o, CapacityType: q.CapacityType, Code: failure.Code, Message: failure.Message})
		}
	}
}

// launch starts one instance if its pool and subnet have room. The caller holds the lock and commits.
func (r *Region) launch(x option, capacityType string, tags map[string]string, clientToken, fleet string) (*Instance, *APIError) {
	pool := Pool{x.o.InstanceType, x.subnet.Zone, capacityType}
	switch {
	case x.offer == nil:
		return nil, apiError("Unsupported", "Your requested instance type (%s) is not supported in your requested Availability Zone (%s).", x.o.InstanceType, x.subnet.Zone)
	case capacityType == Spot && len(x.offer.Spot) == 0:
		return nil, apiError("UnfulfillableCapacity", "Unable to fulfill capacity due to your request configuration: %s is not sold as spot in %s.", x.o.InstanceType, x.subnet.Zone)
	case !r.imageFits(x.o.ImageID, x.offer.Type):
		return nil, apiError("InvalidParameterValue", "The architecture of the image %s does not match that of the instance type %s.", x.o.ImageID, x.o.InstanceType)
	case r.free(pool) <= 0:
		return nil, apiError("InsufficientInstanceCapacity", "We currently do not have sufficient %s capacity in the Availability Zone you requested (%s).", x.o.InstanceType, x.subnet.Zone)
	}
	if err := r.overQuota(x.offer.Type, capacityType); err != nil {
		return nil, err
	}
	ip, ok := r.takeAddress(x.subnet.ID)
	if !ok {
		return nil, apiError("InsufficientFreeAddressesInSubnet", "There are not enough free addresses in subnet '%s' to satisfy the requested number of instances.", x.subnet.ID)
	}
	id := "i-" + r.newID()
	now := r.clock.Now()
	boot := r.bootTime(id)
	i := &Instance{
		ID: id, Type: x.o.InstanceType, ImageID: x.o.ImageID, Architecture: r.image(x.o.ImageID).Architecture,
		Zone: x.subnet.Zone, ZoneID: x.subnet.ZoneID, SubnetID: x.subnet.ID, PrivateIP: ip,
		PrivateDNS: r.privateDNS(ip),
		State:      Pending, CapacityType: capacityType, LaunchedAt: now, RunningAt: now.Add(min(toRunning, boot)), BootAt: now.Add(boot),
		TemplateID: x.template.ID, TemplateName: x.template.Name, UserData: x.data.UserData, NodeDiskGiB: r.nodeDisk(x.o.ImageID, x.data.Devices),
		Devices: r.devices(id, x.o.ImageID, x.data.Devices), Monitoring: x.data.Monitoring,
		SecurityGroups: x.data.SecurityGroupIDs, InstanceProfile: x.data.InstanceProfile,
		Tags: merged(x.data.Tags["instance"], tags), ClientToken: clientToken, FleetID: fleet, PriceMicros: x.price,
	}
	i.CannotStart = !r.usable(i.Devices)
	if capacityType == Spot {
		i.SpotRequestID = "sir-" + r.newID()[:8]
		i.NoticeAt = r.noticeTime(id, now)
	}
	r.instances[id] = i
	r.order = append(r.order, id)
	r.pools[pool]++
	r.save(i)
	r.tell(Event{Kind: EventCreated, Instance: *i})
	r.arm(i)
	return i, nil
}
