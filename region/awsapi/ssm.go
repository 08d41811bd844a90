package awsapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// parameterJSON is a parameter in SSM's form; all of the region's are public and have one version.
type parameterJSON struct {
	ARN, DataType, Name, Type, Value string
	Version                          int
}

func (c *call) parameter(name, value string) parameterJSON {
	return parameterJSON{
		ARN: "arn:aws:ssm:" + c.region.Name() + "::parameter" + name, DataType: "text", Name: name,
		Type: "String", Value: value, Version: 1,
	}
}

func getParameter(c *call) (any, error) {
	var q struct{ Name string }
	if err := readJSON(c.body, &q); err != nil {
		return nil, err
	}
	value, err := c.region.Parameter(q.Name)
	return struct{ Parameter parameterJSON }{c.parameter(q.Name, value)}, err
}

// maxParameters is SSM's largest page, by name or by path.
const maxParameters = 10

func getParameters(c *call) (any, error) {
	var q struct{ Names []string }
	if err := readJSON(c.body, &q); err != nil {
		return nil, err
	}
	if len(q.Names) < 1 || len(q.Names) > maxParameters {
		return nil, failure(400, "ValidationException",
			fmt.Sprintf("Names must have between 1 and %d members, has %d", maxParameters, len(q.Names)))
	}
	answer := struct {
		Parameters        []parameterJSON
		InvalidParameters []string
	}{[]parameterJSON{}, []string{}}
	for _, name := range q.Names {
		value, err := c.region.Parameter(name)
		if err != nil {
			answer.InvalidParameters = append(answer.InvalidParameters, name)
			continue
		}
		answer.Parameters = append(answer.Parameters, c.parameter(name, value))
	}
	return answer, nil
}

func getParametersByPath(c *call) (any, error) {
	var q struct {
		Path, NextToken string
		Recursive       bool
		MaxResults      *int
	}
	if err := readJSON(c.body, &q); err != nil {
		return nil, err
	}
	size := maxParameters
	if q.MaxResults != nil {
		size = *q.MaxResults
	}
	if !strings.HasPrefix(q.Path, "/") || size < 1 || size > maxParameters {
		return nil, failure(400, "ValidationException",
			fmt.Sprintf("Path must begin with / and MaxResults be between 1 and %d; they are %q and %d", maxParameters, q.Path,
				size))
	}
	below := strings.TrimSuffix(q.Path, "/") + "/"
	values := c.region.Parameters(below)
	if !q.Recursive {
		maps.DeleteFunc(values, func(name, _ string) bool { return strings.Contains(name[len(below):], "/") })
	}
	names, next, err := page(slices.Collect(maps.Keys(values)), size, maxParameters, q.NextToken,
		func(name string) string { return name })
	if err != nil {
		return nil, err
	}
	answer := struct {
		Parameters []parameterJSON
		NextToken  string `json:",omitempty"`
	}{[]parameterJSON{}, next}
	for _, name := range names {
		answer.Parameters = append(answer.Parameters, c.parameter(name, values[name]))
	}
	return answer, nil
}
