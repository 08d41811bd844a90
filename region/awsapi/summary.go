package awsapi

import (
	"fmt"
	"strings"

	"github.com/nodeless/nodeless/region"
)

// summaryLength bounds what the call log keeps of a call.
const summaryLength = 200

// telling lists the parameters that say what a query-protocol call is about.
var telling = []string{
	"InstanceId", "ResourceId", "LaunchTemplateName", "LaunchTemplateId", "InstanceProfileName", "RoleName", "ImageId",
	"InstanceType", "SubnetId", "QueueName",
}

// summary says in a line what a call is about, for the log of calls.
func (c *call) summary(p protocol) string {
	s := c.path
	switch {
	case p == protocolJSON:
		s = string(c.body)
	case p == protocolQuery && c.action == "CreateFleet":
		target, config := c.form.at("TargetCapacitySpecification"), c.form.at("LaunchTemplateConfigs.1")
		s = fmt.Sprintf("%s %s, first %s of %s", target.str("TotalTargetCapacity"), target.str("DefaultTargetCapacityType"),
			config.str("Overrides.1.InstanceType"), config.str("LaunchTemplateSpecification.LaunchTemplateName"))
	case p == protocolQuery:
		var parts []string
		for _, name := range telling {
			values := c.form.strs(name)
			if v := c.form.str(name); v != "" {
				values = []string{v}
			}
			if len(values) > 0 {
				parts = append(parts, name+" "+strings.Join(values[:min(len(values), 10)], " "))
			}
		}
		s = strings.Join(parts, ", ")
	}
	return strings.ToValidUTF8(s[:min(len(s), summaryLength)], "")
}

// logged is a call's result as the region's log takes it.
func logged(err error) error {
	if err == nil {
		return nil
	}
	e, _ := asAPIError(err)
	return &region.APIError{Code: e.Code, Message: e.Message, HTTPStatus: e.Status}
}
