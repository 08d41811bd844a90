package region

import (
	"cmp"
)

// RunRequest is RunInstances.
type RunRequest struct {
	ClientToken  string
	Override     Override
	Data         TemplateData // what the request itself says; wins over the template
	Min, Max     int
	CapacityType string
	Tags         map[string]string
}

// RunInstances launches between Min and Max instances of one type in one place, or fails with the reason.
func (r *Region) RunInstances(q RunRequest) ([]Instance, error) {
	if q.Min < 1 || q.Max < q.Min || q.Max > 1000 {
		return nil, apiError("InvalidParameterValue", "MinCount %d and MaxCount %d: give 1 <= min <= max <= 1000", q.Min, q.Max)
	}
	if q.CapacityType == "" {
		q.CapacityType = OnDemand
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	digest := digestOf(q)
	if t, ok := r.tokens["run/"+q.ClientToken]; ok && q.ClientToken != "" {
		if t.Digest != digest {
			return nil, apiError("IdempotentParameterMismatch", "The client token '%s' was used before with other parameters", q.ClientToken)
		}
		return r.copies(t.Run), nil
	}
	x, err := r.runOption(q)
	if err != nil {
		return nil, err
	}
	if free := r.free(Pool{x.o.InstanceType, x.subnet.Zone, q.CapacityType}); x.offer != nil && free < q.Min {
		return nil, apiError("InsufficientInstanceCapacity", "We currently do not have sufficient %s capacity in the Availability Zone you requested (%s).", x.o.InstanceType, x.subnet.Zone)
	}
	var ids []string
	for len(ids) < q.Max {
		i, failure := r.launch(x, q.CapacityType, q.Tags, q.ClientToken, "")
		if failure != nil && len(ids) < q.Min {
			for _, id := range ids {
				i := r.instances[id]
				r.shutDown(i, r.clock.Now(), "Server.InternalError", failure.Error())
				r.arm(i)
			}
			_ = r.commit()
			return nil, failure
		}
		if failure != nil {
			break
		}
		ids = append(ids, i.ID)
	}
	if q.ClientToken != "" {
		t := &token{Digest: digest, At: r.clock.Now(), Run: ids}
		r.tokens["run/"+q.ClientToken] = t
		r.store.put(bucketTokens, "run/"+q.ClientToken, t)
	}
	return r.copies(ids), r.commit()
}

func (r *Region) runOption(q RunRequest) (option, error) {
	data := q.Data
	template := &LaunchTemplate{}
	if q.Override.TemplateID != "" || q.Override.TemplateName != "" {
		t, d, err := r.template(q.Override.TemplateID, q.Override.TemplateName, q.Override.TemplateVersion)
		if err != nil {
			return option{}, err
		}
		template, data = t, data.over(*d)
	}
	o := q.Override
	o.InstanceType = cmp.Or(o.InstanceType, data.InstanceType, "m5.large")
	o.ImageID = cmp.Or(o.ImageID, data.ImageID)
	if r.image(o.ImageID) == nil {
		return option{}, apiError("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", o.ImageID)
	}
	if r.Type(o.InstanceType) == nil {
		return option{}, apiError("InvalidParameterValue", "Invalid value '%s' for InstanceType.", o.InstanceType)
	}
	subnet, err := r.subnetFor(o)
	if err != nil {
		return option{}, err
	}
	x := option{o: o, template: template, data: &data, subnet: subnet, offer: r.offerIn(o.InstanceType, subnet.Zone)}
	if x.offer != nil {
		x.price = r.price(x.offer, subnet.Zone, q.CapacityType)
	}
	return x, nil
}

func (r *Region) copies(ids []string) []Instance {
	var out []Instance
	for _, id := range ids {
		if i := r.instances[id]; i != nil {
			out = append(out, *i)
		}
	}
	return out
}
