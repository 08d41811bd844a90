package awsapi

import "github.com/nodeless/nodeless/region"

// instanceNames is the parameter that names instances.
func instanceNames[T any](id func(T) string) naming[T] {
	return naming[T]{"InstanceId", "InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id}
}

// describeInstances answers with a reservation for each instance.
func describeInstances(c *call) (any, error) {
	if c.form.has("InstanceId") && c.form.has("MaxResults") {
		return nil, failure(400, "InvalidParameterCombination",
			"The parameter instancesSet cannot be used with the parameter maxResults")
	}
	id := func(i instanceXML) string { return i.InstanceID }
	found, err := chosenFrom(c, setOf(c.region.Instances(), c.surroundings().instance).Items, instanceNames(id))
	if err != nil {
		return nil, err
	}
	reservations := setOf(found, func(i instanceXML) reservationXML {
		return reservationXML{
			ReservationID: "r-" + i.InstanceID[min(2, len(i.InstanceID)):], OwnerID: region.AccountID,
			Instances: items(i),
		}
	}).Items
	return paged(c, "reservationSet", reservations, 1000,
		func(r reservationXML) string { return id(r.Instances.Items[0]) })
}

type instanceStatusXML struct {
	InstanceID         string           `xml:"instanceId"`
	AvailabilityZone   string           `xml:"availabilityZone" filter:"availability-zone"`
	AvailabilityZoneID string           `xml:"availabilityZoneId"`
	Events             set[eventXML]    `xml:"eventsSet" filter:"event."`
	State              stateXML         `xml:"instanceState" filter:"."`
	System             statusSummaryXML `xml:"systemStatus" filter:"system-status."`
	Instance           statusSummaryXML `xml:"instanceStatus" filter:"instance-status."`
	AttachedEBS        statusSummaryXML `xml:"attachedEbsStatus" filter:"attached-ebs-status."`
}

type eventXML struct {
	ID          string `xml:"instanceEventId"`
	Code        string `xml:"code" filter:"code"`
	Description string `xml:"description"`
	NotBefore   string `xml:"notBefore,omitempty"`
	NotAfter    string `xml:"notAfter,omitempty"`
}

type statusSummaryXML struct {
	Status  string               `xml:"status" filter:"status"`
	Details set[statusDetailXML] `xml:"details" filter:"."`
}

type statusDetailXML struct {
	Name          string `xml:"name"`
	Status        string `xml:"status" filter:"reachability"`
	ImpairedSince string `xml:"impairedSince,omitempty"`
}
