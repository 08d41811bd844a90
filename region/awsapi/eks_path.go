package awsapi

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// eksKinds maps path segments below a cluster to EKS's kinds (EKS API reference 2017-11-01).
var eksKinds = map[string]string{
	"": "Cluster", "access-entries": "AccessEntry", "addons": "Addon", "fargate-profiles": "FargateProfile",
	"identity-provider-configs": "IdentityProviderConfig", "insights": "Insight", "node-groups": "Nodegroup",
	"pod-identity-associations": "PodIdentityAssociation", "updates": "Update",
}

// eksItems are the input members that name an item of a kind, where that is not the kind's name followed by Name.
var eksItems = map[string]string{"AccessEntry": "PrincipalArn", "Update": "UpdateId", "Cluster": "Name"}

// eksElsewhere lists the operations whose paths are not below a cluster.
var eksElsewhere = map[string]string{
	"GET addons supported-versions": "DescribeAddonVersions", "GET access-policies": "ListAccessPolicies",
}

// eksRequest derives the operation of an EKS request from its method and path, whether served or not, and returns it
// with the members of its input that are in the path and the query. The operation is "" if the path is not EKS's.
func eksRequest(req *http.Request) (action string, members url.Values) {
	path, members := []string{}, url.Values{}
	for part := range strings.SplitSeq(strings.Trim(req.URL.EscapedPath(), "/"), "/") { // an ARN contains slashes
		name, err := url.PathUnescape(part)
		if err != nil {
			return "", nil
		}
		path = append(path, name)
	}
	for key, values := range req.URL.Query() {
		members[upperFirst(key)] = values
	}
	if action := eksElsewhere[req.Method+" "+strings.Join(path, " ")]; action != "" {
		return action, members
	}
	switch {
	case path[0] == "tags" && len(path) == 2:
		members.Set("ResourceArn", path[1])
		return map[string]string{
			http.MethodGet: "ListTagsForResource", http.MethodPost: "TagResource", http.MethodDelete: "UntagResource",
		}[req.Method], members
	case path[0] != "clusters" || len(path) > 5:
		return "", nil
	}
	return eksClusterRequest(req.Method, path, members) // clusters[/NAME[/KIND[/NAME[/access-policies]]]]
}

func eksClusterRequest(method string, path []string, members url.Values) (string, url.Values) {
	kind := ""
	if len(path) > 2 {
		kind = path[2]
		members.Set("ClusterName", path[1])
	}
	noun, one := eksKinds[kind], len(path)%2 == 0
	if noun == "" {
		return "", nil
	}
	if len(path) > 3 || kind == "" && one {
		item := eksItems[noun]
		if item == "" {
			item = noun + "Name"
		}
		members.Set(item, path[min(len(path)-1, 3)])
		if noun == "Update" { // DescribeUpdate's name for the cluster
			members.Set("Name", path[1])
		}
	}
	if len(path) == 5 {
		if noun == "AccessEntry" && path[4] == "access-policies" && method == http.MethodGet {
			return "ListAssociatedAccessPolicies", members
		}
		if noun == "Nodegroup" && path[4] == "update-config" && method == http.MethodPost {
			return "UpdateNodegroupConfig", members
		}
		return "", nil
	}
	return eksVerb(method, noun, one), members
}

// eksVerb returns the operation of a method on one or all items of a kind; "" if there is none.
func eksVerb(method, noun string, one bool) string {
	switch {
	case method == http.MethodGet && one:
		return "Describe" + noun
	case method == http.MethodGet && strings.HasSuffix(noun, "y"):
		return "List" + strings.TrimSuffix(noun, "y") + "ies"
	case method == http.MethodGet:
		return "List" + noun + "s"
	case method == http.MethodPost && !one:
		return "Create" + noun
	case method == http.MethodPost:
		return "Update" + noun
	case method == http.MethodDelete && one:
		return "Delete" + noun
	}
	return ""
}

func upperFirst(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}

// setMembers sets the members of an input that a REST request carries in its path and query. Like AWS, it ignores
// those that the input does not have.
func setMembers(in any, members url.Values) error {
	v := reflect.ValueOf(in).Elem()
	for name, values := range members {
		field := v.FieldByName(name)
		if !field.IsValid() || len(values) == 0 {
			continue
		}
		switch field.Interface().(type) {
		case *string:
			field.Set(reflect.ValueOf(&values[0]))
		case []string:
			field.Set(reflect.ValueOf(values))
		case *int32:
			n, err := strconv.ParseInt(values[0], 10, 32)
			if err != nil {
				return failure(http.StatusBadRequest, "SerializationException",
					fmt.Sprintf("%s is %q, which is not an integer", lowerFirst(name), values[0]))
			}
			field.Set(reflect.ValueOf(new(int32(n))))
		}
	}
	return nil
}
