package awsapi

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// The encoders below write the SDK's output structures as the services do. They omit nil values and empty enumeration
// values, and write an empty list as an empty element or array.

// outputNames maps fields of the SDK's outputs to their XML element names where these differ from the service's
// naming rule. A key is a type and a field, or a field alone if all types agree.
var outputNames = map[string]map[string]string{
	serviceEC2: {
		"AvailabilityZone.State":                      "zoneState",
		"AvailabilityZones":                           "availabilityZoneInfo",
		"CapacityReservations":                        "capacityReservationSet",
		"CreateFleetOutput.Instances":                 "fleetInstanceSet",
		"DescribeSecurityGroupsOutput.SecurityGroups": "securityGroupInfo",
		"Endpoint":                       "regionEndpoint",
		"Errors":                         "errorSet",
		"Events":                         "eventsSet",
		"Groups":                         "groupSet",
		"Image.OwnerId":                  "imageOwnerId",
		"Image.Public":                   "isPublic",
		"Image.State":                    "imageState",
		"Images":                         "imagesSet",
		"AssignedIpv4Prefixes":           "assignedIpv4PrefixSet",
		"AssignedPrivateIpAddresses":     "assignedPrivateIpAddressesSet",
		"Ipv4Prefixes":                   "ipv4PrefixSet",
		"SubnetIpv4CidrReservations":     "subnetIpv4CidrReservationSet",
		"SubnetIpv6CidrReservations":     "subnetIpv6CidrReservationSet",
		"InterfaceAssociations":          "interfaceAssociationSet",
		"Instance.BlockDeviceMappings":   "blockDeviceMapping",
		"Instance.PublicDnsName":         "dnsName",
		"Instance.SecurityGroups":        "groupSet",
		"Instance.State":                 "instanceState",
		"Instance.StateTransitionReason": "reason",
		"InstanceStatuses":               "instanceStatusSet",
		"InstanceTypeOfferings":          "instanceTypeOfferingSet",
		"InstanceTypes":                  "instanceTypeSet",
		"Instances":                      "instancesSet",
		"LaunchTemplateVersions":         "launchTemplateVersionSet",
		"Messages":                       "messageSet",
		"NetworkInterfaces":              "networkInterfaceSet",
		"PlacementGroups":                "placementGroupSet",
		"PrivateIpAddresses":             "privateIpAddressesSet",
		"Regions":                        "regionInfo",
		"Reservations":                   "reservationSet",
		"ResponseLaunchTemplateData.BlockDeviceMappings": "blockDeviceMappingSet",
		"ResponseLaunchTemplateData.SecurityGroupIds":    "securityGroupIdSet",
		"ResponseLaunchTemplateData.SecurityGroups":      "securityGroupSet",
		"CpuPerformanceFactor.References":                "referenceSet",
		"ElasticGpuSpecifications":                       "elasticGpuSpecificationSet",
		"ElasticInferenceAccelerators":                   "elasticInferenceAcceleratorSet",
		"InstanceRequirements.AcceleratorManufacturers":  "acceleratorManufacturerSet",
		"InstanceRequirements.AcceleratorNames":          "acceleratorNameSet",
		"InstanceRequirements.AcceleratorTypes":          "acceleratorTypeSet",
		"InstanceRequirements.AllowedInstanceTypes":      "allowedInstanceTypeSet",
		"InstanceRequirements.CpuManufacturers":          "cpuManufacturerSet",
		"InstanceRequirements.ExcludedInstanceTypes":     "excludedInstanceTypeSet",
		"InstanceRequirements.InstanceGenerations":       "instanceGenerationSet",
		"InstanceRequirements.LocalStorageTypes":         "localStorageTypeSet",
		"Ipv6Addresses":                                  "ipv6AddressesSet",
		"Ipv6Prefixes":                                   "ipv6PrefixSet",
		"LicenseSpecifications":                          "licenseSet",
		"SecurityGroup.Description":                      "groupDescription",
		"SecurityGroupRules":                             "securityGroupRuleSet",
		"SpotPriceHistory":                               "spotPriceHistorySet",
		"Subnets":                                        "subnetSet",
		"TagSpecifications":                              "tagSpecificationSet",
		"Tags":                                           "tagSet",
		"TerminatingInstances":                           "instancesSet",
		"UserIdGroupPairs":                               "groups",
		"Vpcs":                                           "vpcSet",
	},
	serviceSQS: {
		"Attributes": "Attribute",
		"Failed":     "BatchResultErrorEntry",
		"Messages":   "Message",
		"Successful": "DeleteMessageBatchResultEntry",
	},
}

// itemNames are the names of list items where they differ from their service's.
var itemNames = map[string]string{
	"InferenceAcceleratorInfo.Accelerators":                      "member",
	"LaunchTemplateInstanceNetworkInterfaceSpecification.Groups": "groupId",
}

// xmlEncoder writes an output as XML of a query service.
type xmlEncoder struct {
	bytes.Buffer
	service string
}

// elementName returns the name of a field's element. EC2's are in lower camel case.
func (e *xmlEncoder) elementName(owner reflect.Type, field string) string {
	names := outputNames[e.service]
	switch {
	case names[owner.Name()+"."+field] != "":
		return names[owner.Name()+"."+field]
	case names[field] != "":
		return names[field]
	case e.service == serviceEC2:
		return lowerFirst(field)
	}
	return field
}

func lowerFirst(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToLower(first)) + s[size:]
}

// members writes the fields of a structure.
func (e *xmlEncoder) members(v reflect.Value) {
	for field, value := range outputFields(v) {
		name := e.elementName(v.Type(), field)
		switch value.Kind() {
		case reflect.Slice:
			e.list(name, itemNames[v.Type().Name()+"."+field], value)
		case reflect.Map: // SQS's attributes
			for _, k := range slices.Sorted(maps.Keys(value.Interface().(map[string]string))) {
				_, _ = fmt.Fprintf(e, "<%s><Name>%s</Name><Value>%s</Value></%s>",
					name, escape(k), escape(value.MapIndex(reflect.ValueOf(k)).String()), name)
			}
		default:
			e.element(name, value)
		}
	}
}

// list writes a list. EC2 wraps items and most services wrap members, but SQS repeats the element.
func (e *xmlEncoder) list(name, item string, v reflect.Value) {
	switch {
	case item != "":
	case e.service == serviceEC2:
		item = "item"
	case e.service == serviceSQS:
		for _, x := range v.Seq2() {
			e.element(name, x)
		}
		return
	default:
		item = "member"
	}
	_, _ = fmt.Fprintf(e, "<%s>", name)
	for _, x := range v.Seq2() {
		e.element(item, x)
	}
	_, _ = fmt.Fprintf(e, "</%s>", name)
}

// element writes a structure or a scalar.
func (e *xmlEncoder) element(name string, v reflect.Value) {
	v = reflect.Indirect(v)
	_, _ = fmt.Fprintf(e, "<%s>", name)
	if isStruct(v) {
		e.members(v)
	} else {
		e.WriteString(escape(scalar(v)))
	}
	_, _ = fmt.Fprintf(e, "</%s>", name)
}

func isStruct(v reflect.Value) bool {
	return v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]()
}

// outputFields yields the fields of an SDK structure that are set, skipping nil pointers, lists and maps, and empty
// strings of an enumeration.
func outputFields(v reflect.Value) func(yield func(string, reflect.Value) bool) {
	return func(yield func(string, reflect.Value) bool) {
		for i := range v.NumField() {
			field, value := v.Type().Field(i), v.Field(i)
			if !field.IsExported() || field.Name == "ResultMetadata" {
				continue
			}
			switch value.Kind() {
			case reflect.Pointer, reflect.Slice, reflect.Map, reflect.String:
				if value.IsZero() {
					continue
				}
			}
			if !yield(field.Name, value) {
				return
			}
		}
	}
}

// scalar formats a value as the query services write it and as filters compare it.
func scalar(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Time:
		return stamp(x)
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return fmt.Sprint(v.Interface())
}

// stamp formats a time as the XML services do.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// namespaces are the XML namespaces of the query services' responses.
var namespaces = map[string]string{
	serviceEC2: "http://ec2.amazonaws.com/doc/2016-11-15/",
	serviceIAM: "https://iam.amazonaws.com/doc/2010-05-08/",
	serviceSTS: "https://sts.amazonaws.com/doc/2011-06-15/",
	serviceSQS: "http://queue.amazonaws.com/doc/2012-11-05/",
	serviceELB: "http://elasticloadbalancing.amazonaws.com/doc/2015-12-01/",

	serviceScaling: "http://autoscaling.amazonaws.com/doc/2011-01-01/",
}

// writeXML writes the response of a query protocol call. EC2 puts the members directly into the response, or true if
// the call has none; the other services put them into a result element inside it.
func writeXML(w http.ResponseWriter, service, action, requestID string, output any) {
	e, v := &xmlEncoder{service: service}, reflect.ValueOf(output).Elem()
	e.members(v)
	inner, returnsNothing := e.String(), v.NumField() == emptyOutput
	switch {
	case service == serviceEC2 && returnsNothing:
		inner = "<return>true</return>"
	case service != serviceEC2 && (!returnsNothing || sendsEmpty[service]):
		inner = "<" + action + "Result>" + inner + "</" + action + "Result>"
	}
	id := "<requestId>" + requestID + "</requestId>"
	if service != serviceEC2 {
		id = "<ResponseMetadata><RequestId>" + requestID + "</RequestId></ResponseMetadata>"
	}
	header(w, "text/xml;charset=UTF-8", requestID, http.StatusOK)
	// A write error means that the caller has gone away.
	_, _ = fmt.Fprintf(w, "%s<%sResponse xmlns=%q>%s%s</%sResponse>",
		xml.Header, action, namespaces[service], id, inner, action)
}

// sendsEmpty lists the services that send a result element even if it is empty.
var sendsEmpty = map[string]bool{serviceELB: true, serviceScaling: true}

// emptyOutput is the number of fields of an SDK output without members.
var emptyOutput = reflect.TypeFor[ec2.CreateTagsOutput]().NumField()

// writeJSON writes the response of a JSON protocol call. EKS, CloudWatch Logs and ARC spell members in lower camel
// case.
func writeJSON(w http.ResponseWriter, service, requestID string, output any) error {
	name := func(field string) string { return field }
	if service == serviceEKS || service == serviceLogs || service == serviceARC {
		name = lowerFirst
	}
	body, err := json.Marshal(jsonOf(reflect.ValueOf(output), name))
	if err != nil {
		return fmt.Errorf("encode %T: %w", output, err)
	}
	header(w, jsonContent[service], requestID, http.StatusOK)
	_, _ = w.Write(body)
	return nil
}

// jsonOf converts an output to a value that encoding/json can write.
func jsonOf(v reflect.Value, name func(field string) string) any {
	v = reflect.Indirect(v)
	switch t, isTime := v.Interface().(time.Time); {
	case isTime: // seconds since 1970, as in Smithy's JSON protocols
		return float64(t.UnixMilli()) / 1000
	case isStruct(v):
		object := map[string]any{}
		for field, value := range outputFields(v) {
			object[name(field)] = jsonOf(value, name)
		}
		return object
	case v.Kind() == reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = jsonOf(v.Index(i), name)
		}
		return list
	}
	return v.Interface()
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder never fails
	return b.String()
}
