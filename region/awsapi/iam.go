package awsapi

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nodeless/nodeless/region"
)

// rolesCreated is when every role of the account was made; the region keeps no date.
var rolesCreated = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// nodeTrust is the trust policy of a role for instances.
const nodeTrust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow",` +
	`"Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`

func iamARN(kind, path, name string) string {
	return "arn:aws:iam::" + region.AccountID + ":" + kind + path + name
}

func roleOf(name string) roleXML {
	sum := sha256.Sum256([]byte(name))
	return roleXML{
		Path: "/", RoleName: name, RoleID: "AROA" + strings.ToUpper(hex.EncodeToString(sum[:8])),
		ARN:                      iamARN("role", "/", name),
		CreateDate:               stamp(rolesCreated),
		AssumeRolePolicyDocument: strings.ReplaceAll(url.QueryEscape(nodeTrust), "+", "%20"),
	}
}

// profileOf returns a profile in IAM's form. Lists omit the tags, as IAM's do.
func profileOf(p region.InstanceProfile, withTags bool) profileXML {
	x := profileXML{
		Path: p.Path, Name: p.Name, ID: p.ID, ARN: iamARN("instance-profile", p.Path, p.Name),
		CreateDate: stamp(p.CreatedAt),
	}
	for _, role := range p.Roles {
		x.Roles.Items = append(x.Roles.Items, roleOf(role))
	}
	if withTags {
		for _, k := range slices.Sorted(maps.Keys(p.Tags)) {
			x.Tags.Items = append(x.Tags.Items, iamTagXML{Key: k, Value: p.Tags[k]})
		}
	}
	return x
}

func (f form) iamTags() map[string]string {
	tags := map[string]string{}
	for _, t := range f.each("Tags") {
		t.require("Key")
		tags[t.str("Key")] = t.str("Value")
	}
	return tags
}

// named reads the parameters that a call cannot do without.
func (c *call) named(names ...string) error {
	for _, name := range names {
		if c.form.str(name) == "" {
			return failure(400, "ValidationError",
				"1 validation error detected: Value at '"+name+"' failed to satisfy constraint: Member must not be null")
		}
	}
	return c.form.fail()
}

const profileName = "InstanceProfileName"

func getInstanceProfile(c *call) (any, error) {
	if err := c.named(profileName); err != nil {
		return nil, err
	}
	p, err := c.region.InstanceProfile(c.form.str(profileName))
	return profileAnswer{Profile: profileOf(p, true)}, err
}

func createInstanceProfile(c *call) (any, error) {
	tags := c.form.iamTags()
	if err := c.named(profileName); err != nil {
		return nil, err
	}
	path := c.form.str("Path")
	if path != "" && (!strings.HasPrefix(path, "/") || !strings.HasSuffix(path, "/")) {
		return nil, failure(400, "ValidationError",
			"The specified value for path is invalid. It must begin and end with / "+
				"and contain only alphanumeric characters and/or / characters.")
	}
	p, err := c.region.CreateInstanceProfile(c.form.str(profileName), path, tags)
	return profileAnswer{Profile: profileOf(p, true)}, err
}

func deleteInstanceProfile(c *call) (any, error) {
	if err := c.named(profileName); err != nil {
		return nil, err
	}
	return nil, c.region.DeleteInstanceProfile(c.form.str(profileName))
}

func tagInstanceProfile(c *call) (any, error) {
	tags := c.form.iamTags()
	if err := c.named(profileName); err != nil {
		return nil, err
	}
	return nil, c.region.TagInstanceProfile(c.form.str(profileName), tags)
}

// maxItems is the largest page of IAM; usualItems that of a request which names none.
const (
	maxItems   = 1000
	usualItems = 100
)

func listInstanceProfiles(c *call) (any, error) {
	size := usualItems
	if n := c.form.optionalInteger("MaxItems"); n != nil {
		size = *n
	}
	if err := c.form.fail(); err != nil {
		return nil, err
	}
	if size < 1 || size > maxItems {
		return nil, failure(400, "ValidationError", "MaxItems must be between 1 and 1000")
	}
	list, next, err := page(c.region.InstanceProfiles(c.form.str("PathPrefix")), size, maxItems, c.form.str("Marker"),
		func(p region.InstanceProfile) string { return p.Name })
	if err != nil {
		return nil, err
	}
	answer := profilesAnswer{Truncated: next != "", Marker: next}
	for _, p := range list {
		answer.Profiles.Items = append(answer.Profiles.Items, profileOf(p, false))
	}
	return answer, nil
}

func addRoleToInstanceProfile(c *call) (any, error) {
	if err := c.named(profileName, "RoleName"); err != nil {
		return nil, err
	}
	return nil, c.region.AddRoleToInstanceProfile(c.form.str(profileName), c.form.str("RoleName"))
}

func removeRoleFromInstanceProfile(c *call) (any, error) {
	if err := c.named(profileName, "RoleName"); err != nil {
		return nil, err
	}
	return nil, c.region.RemoveRoleFromInstanceProfile(c.form.str(profileName), c.form.str("RoleName"))
}

func getRole(c *call) (any, error) {
	if err := c.named("RoleName"); err != nil {
		return nil, err
	}
	role, err := c.region.Role(c.form.str("RoleName"))
	return roleAnswer{Role: roleOf(role.Name)}, err
}

// getCallerIdentity is STS's. Whoever signs is the account's root: signatures are not verified.
func getCallerIdentity(*call) (any, error) {
	return callerAnswer{
		ARN: "arn:aws:iam::" + region.AccountID + ":root", UserID: region.AccountID,
		Account: region.AccountID,
	}, nil
}

// IAM's answers (API version 2010-05-08).

type iamTagXML struct {
	Key   string `xml:"Key"`
	Value string `xml:"Value"`
}

type roleXML struct {
	Path       string `xml:"Path"`
	RoleName   string `xml:"RoleName"`
	RoleID     string `xml:"RoleId"`
	ARN        string `xml:"Arn"`
	CreateDate string `xml:"CreateDate"`
	// AssumeRolePolicyDocument is URL-encoded JSON (RFC 3986), as IAM sends it.
	AssumeRolePolicyDocument string `xml:"AssumeRolePolicyDocument,omitempty"`
}

type profileXML struct {
	Path       string             `xml:"Path"`
	Name       string             `xml:"InstanceProfileName"`
	ID         string             `xml:"InstanceProfileId"`
	ARN        string             `xml:"Arn"`
	CreateDate string             `xml:"CreateDate"`
	Roles      members[roleXML]   `xml:"Roles"`
	Tags       members[iamTagXML] `xml:"Tags"`
}

type profileAnswer struct {
	Profile profileXML `xml:"InstanceProfile"`
}

type profilesAnswer struct {
	Profiles  members[profileXML] `xml:"InstanceProfiles"`
	Truncated bool                `xml:"IsTruncated"`
	Marker    string              `xml:"Marker,omitempty"`
}

type roleAnswer struct {
	Role roleXML `xml:"Role"`
}

// callerAnswer is STS GetCallerIdentity's.
type callerAnswer struct {
	ARN     string `xml:"Arn"`
	UserID  string `xml:"UserId"`
	Account string `xml:"Account"`
}
