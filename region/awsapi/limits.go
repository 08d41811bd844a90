package awsapi

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"regexp"
	"strings"

	"github.com/nodeless/nodeless/region"
)

// limit is what a field of an input may hold: a number from least to most, or a string of a form. The zero value
// allows everything.
type limit struct {
	least, most int64
	form        *regexp.Regexp
	code        string // of the error; "" means the service's
}

const unlimited = math.MaxInt32

func numbers(least, most int64) limit { return limit{least: least, most: most} }

// text limits a string to a pattern, all of which it must match.
func text(pattern string) limit { return limit{form: regexp.MustCompile("^(?:" + pattern + ")$")} }

// idOf limits a string to the IDs of one kind of EC2 resource.
func idOf(prefix, code string) limit {
	l := text(prefix + `-[0-9a-f]+`)
	l.code = code
	return l
}

// limits lists the fields of inputs that have limits by service: FIELD, wherever it is, or TYPE.FIELD. Of EC2's
// inputs, only their own fields count, not those of structures inside them. The numbers and patterns are those of each
// service's API reference; the codes of malformed IDs are those of "Error codes for the Amazon EC2 API".
var limits = map[string]map[string]limit{
	serviceEC2: {
		"MaxResults":                                               numbers(5, 1000),
		"DescribeInstanceTypesInput.MaxResults":                    numbers(5, 100),
		"DescribeTrunkInterfaceAssociationsInput.MaxResults":       numbers(5, 255),
		"DescribeCapacityReservationsInput.MaxResults":             numbers(1, 1000),
		"DescribeImagesInput.MaxResults":                           numbers(1, 1000),
		"DescribeLaunchTemplatesInput.MaxResults":                  numbers(1, 200),
		"DescribeLaunchTemplateVersionsInput.MaxResults":           numbers(1, 200),
		"DescribeSpotPriceHistoryInput.MaxResults":                 numbers(1, 1000),
		"GetInstanceTypesFromInstanceRequirementsInput.MaxResults": numbers(1, 1000),

		"InstanceId": idOf("i", "InvalidInstanceID.Malformed"), "InstanceIds": idOf("i", "InvalidInstanceID.Malformed"),
		"ImageId": idOf("ami", "InvalidAMIID.Malformed"), "ImageIds": idOf("ami", "InvalidAMIID.Malformed"),
		"GroupId": idOf("sg", "InvalidGroupId.Malformed"), "GroupIds": idOf("sg", "InvalidGroupId.Malformed"),
		"Groups": idOf("sg", "InvalidGroupId.Malformed"), "SecurityGroupIds": idOf("sg", "InvalidGroupId.Malformed"),
		"DescribePlacementGroupsInput.GroupIds": {},
		"NetworkInterfaceId":                    idOf("eni", "InvalidNetworkInterfaceId.Malformed"),
		"NetworkInterfaceIds":                   idOf("eni", "InvalidNetworkInterfaceId.Malformed"),
		"LaunchTemplateId":                      idOf("lt", "InvalidLaunchTemplateId.Malformed"),
		"LaunchTemplateIds":                     idOf("lt", "InvalidLaunchTemplateId.Malformed"),
	},
	serviceScaling: {
		"MaxRecords": numbers(1, 100), "DescribeAutoScalingInstancesInput.MaxRecords": numbers(1, 50),
		"MinSize": numbers(0, unlimited), "MaxSize": numbers(0, unlimited), "DesiredCapacity": numbers(0, unlimited),
		"DefaultCooldown": numbers(0, unlimited), "HealthCheckGracePeriod": numbers(0, unlimited),
		"HealthCheckType":  text(`(EC2|EBS|ELB|VPC_LATTICE)(,(EC2|EBS|ELB|VPC_LATTICE))*`),
		"HeartbeatTimeout": numbers(30, 7200), "InstanceWarmup": numbers(0, unlimited),
		"SpotInstancePools": numbers(1, 20), "OnDemandBaseCapacity": numbers(0, unlimited),
		"OnDemandPercentageAboveBaseCapacity": numbers(0, 100),
	},
	serviceIAM: {
		"MaxItems": numbers(1, 1000), "MaxSessionDuration": numbers(3600, 43200),
		"Path": text(`/|/[!-~]+/`), "PathPrefix": text("/[!-\u007f]*"),
		"RoleName": text(`[\w+=,.@-]{1,64}`), "PolicyName": text(`[\w+=,.@-]{1,128}`),
		"UserName": text(`[\w+=,.@-]{1,128}`), "CreateUserInput.UserName": text(`[\w+=,.@-]{1,64}`),
		"InstanceProfileName": text(`[\w+=,.@-]{1,128}`),
	},
	serviceSTS: {
		"DurationSeconds": numbers(900, 43200), "RoleSessionName": text(`[\w+=,.@-]{2,64}`),
	},
	serviceELB: {
		"PageSize": numbers(1, 400), "Port": numbers(1, 65535), "Priority": numbers(1, 50000),
		"HealthCheckIntervalSeconds": numbers(5, 300), "HealthCheckTimeoutSeconds": numbers(2, 120),
		"HealthyThresholdCount": numbers(2, 10), "UnhealthyThresholdCount": numbers(2, 10),
	},
	serviceEKS: {
		"MaxResults": numbers(1, 100), "CapacityType": text("ON_DEMAND|SPOT|CAPACITY_BLOCK"),
		"MinSize": numbers(0, unlimited), "MaxSize": numbers(1, unlimited), "DesiredSize": numbers(0, unlimited),
		"MaxUnavailable": numbers(1, 100), "MaxUnavailablePercentage": numbers(1, 100), "DiskSize": numbers(1, unlimited),
	},
	serviceLogs: {
		"Limit": numbers(1, maxPageEvents), "DescribeLogGroupsInput.Limit": numbers(1, 50),
		"DescribeLogStreamsInput.Limit": numbers(1, 50),
	},
	serviceSSM:     {"MaxResults": numbers(1, maxParameters)},
	servicePricing: {"MaxResults": numbers(1, 100)},
	serviceARC:     {"MaxResults": numbers(1, 100)},
}

// checkLimits returns an error that names the first field of an input that is out of its limits.
func checkLimits(service string, in any) error {
	if limits[service] == nil {
		return nil
	}
	return checkFields(service, "", reflect.ValueOf(in).Elem())
}

// checkFields checks the fields of a structure at a path of the input. A field that is not set has no limit.
func checkFields(service, path string, v reflect.Value) error {
	if service == serviceEC2 && path != "" {
		return nil
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || v.Field(i).IsZero() {
			continue
		}
		l, own := limits[service][v.Type().Name()+"."+f.Name]
		if !own {
			l = limits[service][f.Name]
		}
		if err := l.check(service, path+lowerFirst(f.Name), v.Field(i)); err != nil {
			return err
		}
	}
	return nil
}

// check checks a value, and everything inside it.
func (l limit) check(service, path string, v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return l.check(service, path, v.Elem())
	case reflect.Slice:
		for _, x := range v.Seq2() {
			if err := l.check(service, path, x); err != nil {
				return err
			}
		}
	case reflect.Struct:
		return checkFields(service, path+".", v)
	case reflect.String:
		if l.form != nil && !l.form.MatchString(v.String()) {
			pattern := strings.TrimSuffix(strings.TrimPrefix(l.form.String(), "^(?:"), ")$")
			return l.failure(service, path, v.String(), "satisfy regular expression pattern: "+pattern)
		}
	case reflect.Int32, reflect.Int64:
		switch n := v.Int(); {
		case l.most == 0:
		case n < l.least:
			return l.failure(service, path, fmt.Sprint(n), fmt.Sprint("have value greater than or equal to ", l.least))
		case n > l.most:
			return l.failure(service, path, fmt.Sprint(n), fmt.Sprint("have value less than or equal to ", l.most))
		}
	}
	return nil
}

// invalidCodes are the services' codes of errors about parameters, where it is not ValidationError.
var invalidCodes = map[string]string{
	serviceEKS: "InvalidParameterException", serviceLogs: "InvalidParameterException",
	servicePricing: "InvalidParameterException", serviceSSM: "ValidationException", serviceARC: "ValidationException",
}

// failure returns the error of a service for a value that must do something else.
func (l limit) failure(service, path, value, must string) *region.APIError {
	switch {
	case l.code != "":
		return failure(http.StatusBadRequest, l.code, fmt.Sprintf("Invalid id: %q", value))
	case service == serviceEC2:
		return failure(http.StatusBadRequest, "InvalidParameterValue", fmt.Sprintf(
			"Value ( %s ) for parameter %s is invalid. Expecting a value between %d and %d.", value, path, l.least, l.most))
	}
	return failure(http.StatusBadRequest, cmp.Or(invalidCodes[service], "ValidationError"), fmt.Sprintf(
		"1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: Member must %s", value, path, must))
}
