package awsapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
)

// operation handles one API call and returns the output to encode.
type operation func(*call) (any, error)

// op turns a function from a call's SDK input to its SDK output into an operation.
func op[In, Out any](do func(*call, *In) (*Out, error)) operation {
	return func(c *call) (any, error) {
		in := new(In)
		if err := c.decode(in); err != nil {
			return nil, err
		}
		if err := checkLimits(c.service, in); err != nil {
			return nil, err
		}
		if err := (authorizer{c}).authorize(in); err != nil {
			return nil, err
		}
		if err := c.refuseReservedTags(); err != nil {
			return nil, err
		}
		out, err := do(c, in)
		if err != nil {
			return nil, err
		}
		return out, nil
	}
}

// decode reads a request into the SDK's input structure.
func (c *call) decode(in any) error {
	switch {
	case c.protocol == protocolQuery:
		return c.parameters.decode(reflect.ValueOf(in).Elem())
	case len(strings.TrimSpace(string(c.body))) == 0:
		return setMembers(in, c.members)
	}
	if err := json.Unmarshal(c.body, in); err != nil {
		return failure(http.StatusBadRequest, "SerializationException",
			fmt.Sprintf("the request body cannot be read: %v", err))
	}
	return setMembers(in, c.members)
}

// parameter is a node of the tree formed by the parameters of the query protocols. Dots separate structures from
// their members; lists are numbered from 1: LaunchTemplateConfigs.1.Overrides.2.InstanceType.
type parameter struct {
	path  string // full name
	value string
	below map[string]*parameter
}

func newParameters(values url.Values) *parameter {
	root := &parameter{}
	for path, v := range values {
		p, end := root, 0
		for name := range strings.SplitSeq(path, ".") {
			end += len(name)
			if p.below == nil {
				p.below = map[string]*parameter{}
			}
			if p.below[name] == nil {
				p.below[name] = &parameter{path: path[:end]}
			}
			p = p.below[name]
			end++
		}
		p.value = strings.Clone(v[0]) // what keeps a value must not keep the whole body
	}
	return root
}

// str returns the value of the parameter with a name below p, or "" if there is none.
func (p *parameter) str(name string) string {
	for part := range strings.SplitSeq(name, ".") {
		if p = p.below[part]; p == nil {
			return ""
		}
	}
	return p.value
}

// refuseReservedTags returns an error if a call of EC2 gives or takes a tag that only AWS may.
func (c *call) refuseReservedTags() error {
	if c.service != serviceEC2 {
		return nil
	}
	if key := c.parameters.reservedTag(); key != "" {
		return failure(http.StatusBadRequest, "InvalidParameterValue", "Value ( "+key+" ) for parameter key is invalid. "+
			"Tag keys starting with 'aws:' are reserved for internal use")
	}
	return nil
}

// reservedTag returns the key of a tag below p that begins with aws:; "" if there is none.
func (p *parameter) reservedTag() string {
	for _, list := range []string{"Tag", "TagSpecification", "LaunchTemplateData"} {
		q := p.below[list]
		if q == nil {
			continue
		}
		for _, item := range append(q.items(), q) {
			key := item.str("Key")
			if !strings.HasPrefix(strings.ToLower(key), "aws:") {
				key = item.reservedTag()
			}
			if key != "" {
				return key
			}
		}
	}
	return ""
}

// inputNames maps parameter names to fields of the SDK's inputs where they differ by more than a plural.
var inputNames = map[string]string{
	"CreateNetworkInterfaceInput.SecurityGroupId":                                "Groups",
	"ModifyNetworkInterfaceAttributeInput.SecurityGroupId":                       "Groups",
	"CreateSecurityGroupInput.GroupDescription":                                  "Description",
	"CreateTagsInput.ResourceId":                                                 "Resources",
	"DeleteMessageBatchInput.DeleteMessageBatchRequestEntry":                     "Entries",
	"DeleteTagsInput.ResourceId":                                                 "Resources",
	"DescribeLaunchTemplateVersionsInput.LaunchTemplateVersion":                  "Versions",
	"ModifyLaunchTemplateInput.SetDefaultVersion":                                "DefaultVersion",
	"InstanceNetworkInterfaceSpecification.SecurityGroupId":                      "Groups",
	"IpPermission.Groups":                                                        "UserIdGroupPairs",
	"LaunchTemplateInstanceNetworkInterfaceSpecification.SecurityGroupId":        "Groups",
	"LaunchTemplateInstanceNetworkInterfaceSpecificationRequest.SecurityGroupId": "Groups",
}

// decode sets v, part of an SDK input, from p and the parameters below it. Parameters without a field are ignored.
func (p *parameter) decode(v reflect.Value) error {
	switch {
	case v.Kind() == reflect.Pointer:
		if p.value == "" && p.below == nil && v.Type().Elem().Kind() != reflect.String {
			return nil
		}
		v.Set(reflect.New(v.Type().Elem()))
		return p.decode(v.Elem())
	case v.Kind() == reflect.Slice:
		for _, item := range p.items() {
			x := reflect.New(v.Type().Elem()).Elem()
			if err := item.decode(x); err != nil {
				return err
			}
			v.Set(reflect.Append(v, x))
		}
		return nil
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]():
		return p.decodeStruct(v)
	}
	return p.decodeScalar(v)
}

func (p *parameter) decodeStruct(v reflect.Value) error {
	t := v.Type()
	for _, name := range slices.Sorted(maps.Keys(p.below)) {
		field, ok := t.FieldByName(name)
		if other := inputNames[inputName(t)+"."+name]; other != "" {
			field, ok = t.FieldByName(other)
		} else if !ok {
			if field, ok = t.FieldByName(name + "s"); !ok {
				field, ok = t.FieldByName(name + "es")
			}
		}
		if !ok || !field.IsExported() {
			continue
		}
		if err := p.below[name].decode(v.FieldByIndex(field.Index)); err != nil {
			return err
		}
	}
	for _, name := range required[inputName(t)] {
		if p.below[name] == nil {
			return missing(t, strings.TrimPrefix(p.path+"."+name, "."))
		}
	}
	return nil
}

// inputName returns the name of an SDK type, made unique where an input of EC2 Auto Scaling has the same name as one
// of EC2.
func inputName(t reflect.Type) string {
	if t == reflect.TypeFor[autoscaling.DeleteTagsInput]() {
		return serviceScaling + "." + t.Name()
	}
	return t.Name()
}

// missing returns the error for a missing required parameter, as worded by the service to which the input belongs.
func missing(input reflect.Type, path string) error {
	if p := input.PkgPath(); strings.HasSuffix(p, "/"+serviceIAM) || strings.Contains(p, "/elasticloadbalancingv2") ||
		strings.Contains(p, "/"+serviceScaling) {
		return failure(http.StatusBadRequest, "ValidationError",
			"1 validation error detected: Value at '"+path+"' failed to satisfy constraint: Member must not be null")
	}
	return missingParameter(path)
}

func missingParameter(path string) error {
	return failure(http.StatusBadRequest, "MissingParameter", "The request must contain the parameter "+path)
}

// decodeScalar parses a value according to the kind of its field.
func (p *parameter) decodeScalar(v reflect.Value) error {
	var err error
	want := ""
	switch v.Kind() {
	case reflect.String:
		v.SetString(p.value)
	case reflect.Int32, reflect.Int64:
		var n int64
		n, err = strconv.ParseInt(p.value, 10, v.Type().Bits())
		v.SetInt(n)
		want = "an integer"
	case reflect.Float64:
		var x float64
		x, err = strconv.ParseFloat(p.value, 64)
		v.SetFloat(x)
		want = "a number"
	case reflect.Bool:
		var b bool
		b, err = strconv.ParseBool(strings.ToLower(p.value))
		v.SetBool(b)
		want = "true or false"
	case reflect.Struct:
		var t time.Time
		t, err = parseTime(p.value)
		v.Set(reflect.ValueOf(t))
		want = "a time such as 2026-01-31T15:04:05Z"
	}
	if err != nil {
		return invalidParameter(p.path, p.value, want)
	}
	return nil
}

func invalidParameter(path, value, want string) error {
	return failure(http.StatusBadRequest, "InvalidParameterValue",
		fmt.Sprintf("Value (%s) for parameter %s is invalid. Expected %s.", value, path, want))
}

func parseTime(s string) (t time.Time, err error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05", time.DateOnly} {
		if t, err = time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return t, err
}

// items returns the members of a list in the order of their numbers; gaps are allowed, as in EC2. The query services
// other than EC2 put a level in between: Tags.member.1.Key.
func (p *parameter) items() []*parameter {
	if m := p.below["member"]; m != nil {
		p = m
	}
	var numbers []int
	for name := range p.below {
		if n, err := strconv.Atoi(name); err == nil && n >= 0 && strconv.Itoa(n) == name {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	list := make([]*parameter, len(numbers))
	for i, n := range numbers {
		list[i] = p.below[strconv.Itoa(n)]
	}
	return list
}
