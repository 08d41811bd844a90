package awsapi

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
