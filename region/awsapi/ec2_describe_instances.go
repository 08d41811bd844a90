package awsapi

import (
	"slices"
	"strconv"
)

func tagMap(tags set[tagXML]) map[string]string {
	m := map[string]string{}
	for _, t := range tags.Items {
		m[t.Key] = t.Value
	}
	return m
}

func (i instanceXML) attributes() attributes {
	var groups, names []string
	for _, g := range i.GroupSet.Items {
		groups, names = append(groups, g.GroupID), append(names, g.GroupName)
	}
	var profile []string
	if i.IAMInstanceProfile != nil {
		profile = []string{i.IAMInstanceProfile.ARN}
	}
	return attributes{
		"instance-id": {i.InstanceID}, "instance-type": {i.InstanceType}, "image-id": {i.ImageID},
		"instance-state-name": {i.State.Name}, "instance-state-code": {strconv.Itoa(i.State.Code)},
		"availability-zone": {i.Placement.AvailabilityZone}, "availability-zone-id": {i.Placement.AvailabilityZoneID}, "tenancy": {i.Placement.Tenancy},
		"subnet-id": {i.SubnetID}, "vpc-id": {i.VpcID}, "private-ip-address": {i.PrivateIPAddress}, "private-dns-name": {i.PrivateDNSName},
		"instance-lifecycle": {i.Lifecycle}, "spot-instance-request-id": {i.SpotInstanceRequestID}, "client-token": {i.ClientToken},
		"architecture": {i.Architecture}, "launch-time": {i.LaunchTime}, "iam-instance-profile.arn": profile,
		"instance.group-id": groups, "instance.group-name": names,
	}.withTags(tagMap(i.TagSet))
}

type reservationsAnswer struct {
	Reservations set[reservationXML] `xml:"reservationSet"`
	NextToken    string              `xml:"nextToken,omitempty"`
}

// answerInstances answers from all instances that the region knows; each is a reservation of its own.
func (c *call) answerInstances(all []instanceXML, ownerID string) (any, error) {
	ids := c.form.strs("InstanceId")
	if len(ids) > 0 && c.form.has("MaxResults") {
		return nil, failure(400, "InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults")
	}
	found, err := named(all, ids, instanceXML.id, "InvalidInstanceID.NotFound", "The instance ID '%s' does not exist")
	if err == nil {
		found, err = selected(found, c.filters(), instanceXML.attributes)
	}
	if err != nil {
		return nil, err
	}
	found, next, err := pageOf(c, found, 1000, instanceXML.id)
	if err != nil {
		return nil, err
	}
	return reservationsAnswer{NextToken: next, Reservations: setOf(found, func(i instanceXML) reservationXML {
		return reservationXML{ReservationID: "r-" + i.id()[min(2, len(i.id())):], OwnerID: ownerID, Instances: set[instanceXML]{Items: []instanceXML{i}}}
	})}, nil
}

func (i instanceXML) id() string { return i.InstanceID }

type instanceStatusXML struct {
	InstanceID         string           `xml:"instanceId"`
	AvailabilityZone   string           `xml:"availabilityZone"`
	AvailabilityZoneID string           `xml:"availabilityZoneId"`
	Events             set[eventXML]    `xml:"eventsSet"`
	State              stateXML         `xml:"instanceState"`
	System             statusSummaryXML `xml:"systemStatus"`
	Instance           statusSummaryXML `xml:"instanceStatus"`
	AttachedEBS        statusSummaryXML `xml:"attachedEbsStatus"`
}

type eventXML struct {
	ID          string `xml:"instanceEventId"`
	Code        string `xml:"code"`
	Description string `xml:"description"`
	NotBefore   string `xml:"notBefore,omitempty"`
	NotAfter    string `xml:"notAfter,omitempty"`
}

type statusSummaryXML struct {
	Status  string               `xml:"status"`
	Details set[statusDetailXML] `xml:"details"`
}

type statusDetailXML struct {
	Name          string `xml:"name"`
	Status        string `xml:"status"`
	ImpairedSince string `xml:"impairedSince,omitempty"`
}

type statusesAnswer struct {
	Statuses  set[instanceStatusXML] `xml:"instanceStatusSet"`
	NextToken string                 `xml:"nextToken,omitempty"`
}

func (s instanceStatusXML) id() string { return s.InstanceID }

func (s instanceStatusXML) attributes() attributes {
	a := attributes{
		"availability-zone": {s.AvailabilityZone}, "instance-state-name": {s.State.Name}, "instance-state-code": {strconv.Itoa(s.State.Code)},
		"instance-status.status": {s.Instance.Status}, "system-status.status": {s.System.Status}, "attached-ebs-status.status": {s.AttachedEBS.Status},
		"event.code": nil, "instance-status.reachability": nil, "system-status.reachability": nil,
	}
	for _, e := range s.Events.Items {
		a["event.code"] = append(a["event.code"], e.Code)
	}
	for _, d := range s.Instance.Details.Items {
		a["instance-status.reachability"] = append(a["instance-status.reachability"], d.Status)
	}
	for _, d := range s.System.Details.Items {
		a["system-status.reachability"] = append(a["system-status.reachability"], d.Status)
	}
	return a
}

// answerStatuses tells of running instances only, unless all are asked for.
func (c *call) answerStatuses(all []instanceStatusXML) (any, error) {
	found, err := named(all, c.form.strs("InstanceId"), instanceStatusXML.id, "InvalidInstanceID.NotFound", "The instance ID '%s' does not exist")
	if err != nil {
		return nil, err
	}
	if !c.form.boolean("IncludeAllInstances") {
		found = slices.DeleteFunc(slices.Clone(found), func(s instanceStatusXML) bool { return s.State.Name != "running" })
	}
	if found, err = selected(found, c.filters(), instanceStatusXML.attributes); err != nil {
		return nil, err
	}
	found, next, err := pageOf(c, found, 1000, instanceStatusXML.id)
	return statusesAnswer{Statuses: set[instanceStatusXML]{Items: found}, NextToken: next}, err
}
