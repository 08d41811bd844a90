package awsapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"
)

// parameterOf converts a parameter to SSM's type. All of the region's are public and have one version.
func (c *call) parameterOf(name, value string) types.Parameter {
	return types.Parameter{
		ARN: new("arn:aws:ssm:" + c.region.Name() + "::parameter" + name), DataType: new("text"), Name: &name,
		Type: types.ParameterTypeString, Value: &value, Version: 1,
	}
}

func getParameter(c *call, in *ssm.GetParameterInput) (*ssm.GetParameterOutput, error) {
	name := aws.ToString(in.Name)
	value, err := c.region.Parameter(name)
	return &ssm.GetParameterOutput{Parameter: new(c.parameterOf(name, value))}, err
}

// maxParameters is SSM's maximum page size, by name or by path.
const maxParameters = 10

func getParameters(c *call, in *ssm.GetParametersInput) (*ssm.GetParametersOutput, error) {
	if len(in.Names) < 1 || len(in.Names) > maxParameters {
		return nil, failure(400, "ValidationException",
			fmt.Sprintf("Names must have between 1 and %d members, has %d", maxParameters, len(in.Names)))
	}
	out := &ssm.GetParametersOutput{Parameters: []types.Parameter{}, InvalidParameters: []string{}}
	for _, name := range in.Names {
		if value, err := c.region.Parameter(name); err != nil {
			out.InvalidParameters = append(out.InvalidParameters, name)
		} else {
			out.Parameters = append(out.Parameters, c.parameterOf(name, value))
		}
	}
	return out, nil
}

func getParametersByPath(c *call, in *ssm.GetParametersByPathInput) (*ssm.GetParametersByPathOutput, error) {
	path := aws.ToString(in.Path)
	if !strings.HasPrefix(path, "/") {
		return nil, failure(400, "ValidationException", fmt.Sprintf("Path must begin with /, is %q", path))
	}
	below := strings.TrimSuffix(path, "/") + "/"
	values := c.region.Parameters(below)
	if !aws.ToBool(in.Recursive) {
		maps.DeleteFunc(values, func(name, _ string) bool { return strings.Contains(name[len(below):], "/") })
	}
	names, next, err := page(slices.Collect(maps.Keys(values)), in.MaxResults, maxParameters, in.NextToken,
		func(name string) string { return name })
	out := &ssm.GetParametersByPathOutput{Parameters: []types.Parameter{}, NextToken: next}
	for _, name := range names {
		out.Parameters = append(out.Parameters, c.parameterOf(name, values[name]))
	}
	return out, err
}
