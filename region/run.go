package region

import "cmp"

// RunRequest holds the parameters of RunInstances.
type RunRequest struct {
	ClientToken  string
	Override     Override
	Data         TemplateData // of the request itself; overrides the template
	Min, Max     int
	CapacityType string // "" means that of the data, or OnDemand
	Tags         map[string]string
	DryRun       bool `json:"-"` // only checks the request
}

// RunInstances launches between Min and Max instances of one type in one subnet. If it cannot launch Min, it returns
// the reason and leaves none running.
func (l *launcher) RunInstances(q RunRequest) ([]Instance, error) {
	if q.Min < 1 || q.Max < q.Min || q.Max > 1000 {
		return nil, apiError("InvalidParameterValue", "MinCount %d and MaxCount %d: give 1 <= min <= max <= 1000", q.Min,
			q.Max)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t, known, err := l.tokens.result("run/", q.ClientToken, q)
	if err != nil {
		return nil, err
	}
	if known && !q.DryRun {
		return l.instances.copies(t.Run), nil
	}
	x, capacityType, err := l.runOption(q)
	if err != nil {
		return nil, err
	}
	if failure := l.checkOption(x, capacityType); failure != nil {
		return nil, failure
	}
	if q.DryRun {
		return nil, nil
	}
	if x.offer != nil && x.data.Reservation == (ReservationChoice{}) &&
		x.free+l.instances.reserved.openRoom(x.o.InstanceType, x.subnet.Zone) < q.Min {
		return nil, noCapacity(x.o.InstanceType, x.subnet.Zone)
	}
	for len(t.Run) < q.Max {
		id, failure := l.launch(x, origin{capacityType, q.Tags, q.ClientToken, ""})
		if failure != nil && len(t.Run) < q.Min {
			l.undo(t.Run, failure)
			return nil, failure
		}
		if failure != nil {
			break
		}
		t.Run = append(t.Run, id)
	}
	l.tokens.remember("run/", q.ClientToken, t)
	return l.instances.copies(t.Run), l.commit()
}

// undo shuts down the instances of a failed call.
func (l *launcher) undo(ids []string, failure *APIError) {
	for _, id := range ids {
		i := l.instances.byID[id]
		l.instances.shutDown(i, l.clock.Now(), "Server.InternalError", failure.Error())
		l.instances.arm(i)
	}
	_ = l.commit()
}

// runOption returns what RunInstances launches, and its capacity type.
func (l *launcher) runOption(q RunRequest) (option, string, error) {
	data := q.Data
	template := &LaunchTemplate{}
	if q.Override.TemplateID != "" || q.Override.TemplateName != "" {
		t, d, err := l.templates.version(q.Override.TemplateID, q.Override.TemplateName, q.Override.TemplateVersion)
		if err != nil {
			return option{}, "", err
		}
		template, data = t, data.Over(*d)
	}
	o := q.Override
	o.InstanceType = cmp.Or(o.InstanceType, data.InstanceType, "m5.large")
	o.ImageID = cmp.Or(o.ImageID, data.ImageID)
	if l.images.image(o.ImageID) == nil {
		return option{}, "", noImage(o.ImageID)
	}
	if l.market.Type(o.InstanceType) == nil {
		return option{}, "", apiError("InvalidParameterValue", "Invalid value '%s' for InstanceType.", o.InstanceType)
	}
	if e := l.instances.interfaces.byID[data.InterfaceID]; e != nil && o.SubnetID == "" {
		o.SubnetID = e.SubnetID
	}
	subnet, err := l.network.subnetFor(data.place(o))
	if err != nil {
		return option{}, "", err
	}
	capacityType := cmp.Or(q.CapacityType, data.Market, OnDemand)
	return l.priced(option{o: o, template: template, data: &data, subnet: subnet}, capacityType), capacityType, nil
}
