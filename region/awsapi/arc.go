package awsapi

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift/types"

	"github.com/nodeless/nodeless/region"
)

// arcRequest derives the operation of a request to Amazon Application Recovery Controller from its method and path,
// and returns it with the members of its input that are in the path and the query (API reference 2022-10-30). The
// operation is "" if the region does not serve it.
func arcRequest(req *http.Request) (action string, members url.Values) {
	kind, item, _ := strings.Cut(strings.Trim(req.URL.EscapedPath(), "/"), "/")
	name, err := url.PathUnescape(item) // an ARN contains slashes
	if err != nil {
		return "", nil
	}
	members = url.Values{}
	for key, values := range req.URL.Query() {
		members[upperFirst(key)] = values
	}
	switch {
	case kind == "managedresources" && name != "" && req.Method == http.MethodGet:
		members.Set("ResourceIdentifier", name)
		return "GetManagedResource", members
	case kind == "zonalshifts" && name == "" && req.Method == http.MethodGet:
		return "ListZonalShifts", members
	case kind == "zonalshifts" && name == "" && req.Method == http.MethodPost:
		return "StartZonalShift", members
	case kind == "zonalshifts" && name != "" && req.Method == http.MethodDelete:
		members.Set("ZonalShiftId", name)
		return "CancelZonalShift", members
	}
	return "", nil
}

// managed returns the ARN of the only resource that supports zonal shift, the cluster, given that ARN.
func (c *call) managed(resource *string) (*string, error) {
	for _, name := range c.region.Clusters() {
		if arn := c.eksARN("cluster", name); aws.ToString(resource) == *arn {
			return arn, nil
		}
	}
	return nil, failure(http.StatusNotFound, "ResourceNotFoundException",
		"The resource "+aws.ToString(resource)+" is not registered for zonal shift: give the ARN of the cluster")
}

func getManagedResource(
	c *call, in *arczonalshift.GetManagedResourceInput,
) (*arczonalshift.GetManagedResourceOutput, error) {
	arn, err := c.managed(in.ResourceIdentifier)
	if err != nil {
		return nil, err
	}
	out := &arczonalshift.GetManagedResourceOutput{
		Arn: arn, Name: new((*arn)[strings.LastIndexByte(*arn, '/')+1:]), AppliedWeights: map[string]float32{},
		ZonalShifts: []types.ZonalShiftInResource{}, Autoshifts: []types.AutoshiftInResource{},
		ZonalAutoshiftStatus: types.ZonalAutoshiftStatusDisabled,
	}
	for _, z := range c.region.Zones() {
		out.AppliedWeights[z.ID] = 1
	}
	for _, z := range c.region.ZonalShifts() {
		if z.Resource != *arn || z.Status(c.region.Now()) != region.ShiftActive {
			continue
		}
		out.AppliedWeights[z.AwayFrom] = 0
		out.ZonalShifts = append(out.ZonalShifts, types.ZonalShiftInResource{
			AppliedStatus: types.AppliedStatusApplied, AwayFrom: &z.AwayFrom, Comment: &z.Comment, ExpiryTime: &z.Expiry,
			ResourceIdentifier: arn, StartTime: &z.Start, ZonalShiftId: &z.ID, ShiftType: types.ShiftTypeZonalShift,
		})
	}
	return out, nil
}

func listZonalShifts(
	c *call, in *arczonalshift.ListZonalShiftsInput,
) (*arczonalshift.ListZonalShiftsOutput, error) {
	out := &arczonalshift.ListZonalShiftsOutput{Items: []types.ZonalShiftSummary{}}
	for _, z := range c.region.ZonalShifts() {
		if in.ResourceIdentifier != nil && *in.ResourceIdentifier != z.Resource ||
			in.Status != "" && string(in.Status) != z.Status(c.region.Now()) {
			continue
		}
		out.Items = append(out.Items, types.ZonalShiftSummary{
			AwayFrom: &z.AwayFrom, Comment: &z.Comment, ExpiryTime: &z.Expiry, ResourceIdentifier: &z.Resource,
			StartTime: &z.Start, ZonalShiftId: &z.ID, Status: types.ZonalShiftStatus(z.Status(c.region.Now())),
			ShiftType: types.ShiftTypeZonalShift,
		})
	}
	return out, nil
}

// shiftLength matches the duration of a shift, in minutes or hours.
var shiftLength = regexp.MustCompile(`^[1-9][0-9]{0,4}[mh]$`)

func startZonalShift(
	c *call, in *arczonalshift.StartZonalShiftInput,
) (*arczonalshift.StartZonalShiftOutput, error) {
	arn, err := c.managed(in.ResourceIdentifier)
	if err != nil {
		return nil, err
	}
	var lasts time.Duration
	if shiftLength.MatchString(aws.ToString(in.ExpiresIn)) {
		lasts, _ = time.ParseDuration(*in.ExpiresIn) // the pattern guarantees that it parses
	}
	z, err := c.region.StartZonalShift(*arn, aws.ToString(in.AwayFrom), aws.ToString(in.Comment), lasts)
	if err != nil {
		return nil, err
	}
	return &arczonalshift.StartZonalShiftOutput{
		AwayFrom: &z.AwayFrom, Comment: &z.Comment, ExpiryTime: &z.Expiry, ResourceIdentifier: arn, StartTime: &z.Start,
		Status: types.ZonalShiftStatusActive, ZonalShiftId: &z.ID,
	}, nil
}

func cancelZonalShift(
	c *call, in *arczonalshift.CancelZonalShiftInput,
) (*arczonalshift.CancelZonalShiftOutput, error) {
	z, err := c.region.CancelZonalShift(aws.ToString(in.ZonalShiftId))
	if err != nil {
		return nil, err
	}
	return &arczonalshift.CancelZonalShiftOutput{
		AwayFrom: &z.AwayFrom, Comment: &z.Comment, ExpiryTime: &z.Expiry, ResourceIdentifier: &z.Resource,
		StartTime: &z.Start, Status: types.ZonalShiftStatusCanceled, ZonalShiftId: &z.ID,
	}, nil
}
