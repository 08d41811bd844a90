package awsapi

import (
	"fmt"
	"strings"
)

// summaryLength is the maximum length of a summary in the log of calls.
const summaryLength = 200

// summaryParameters are the query protocol parameters that a summary shows.
var summaryParameters = []string{
	"InstanceId", "ResourceId", "LaunchTemplateName", "LaunchTemplateId", "InstanceProfileName", "RoleName", "ImageId",
	"InstanceType", "SubnetId", "QueueName", "CapacityReservationId", "InstanceCount",
}

// summary describes a call in one line, for the log of calls.
func (c *call) summary() string {
	s := c.path
	switch p := c.parameters; {
	case c.protocol == protocolJSON:
		s = string(c.body)
	case c.protocol == protocolQuery && c.action == "CreateFleet":
		s = fmt.Sprintf("%s %s, first %s of %s", p.str("TargetCapacitySpecification.TotalTargetCapacity"),
			p.str("TargetCapacitySpecification.DefaultTargetCapacityType"),
			p.str("LaunchTemplateConfigs.1.Overrides.1.InstanceType"),
			p.str("LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName"))
	case c.protocol == protocolQuery:
		var parts []string
		for _, name := range summaryParameters {
			values := []string{}
			if v := p.str(name); v != "" {
				values = append(values, v)
			} else if list := p.below[name]; list != nil {
				for _, item := range list.items() {
					values = append(values, item.value)
				}
			}
			if len(values) > 0 {
				parts = append(parts, name+" "+strings.Join(values[:min(len(values), 10)], " "))
			}
		}
		s = strings.Join(parts, ", ")
	}
	return strings.ToValidUTF8(s[:min(len(s), summaryLength)], "")
}
