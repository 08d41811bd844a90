package region

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// LaunchTemplate is a launch template with all its versions.
type LaunchTemplate struct {
	ID, Name  string
	CreatedAt time.Time
	CreatedBy string
	Default   int
	Versions  []TemplateData // version n is at n-1
	Tags      map[string]string
}

// TemplateData describes the instances of a template.
type TemplateData struct {
	ImageID          string
	InstanceType     string
	UserData         []byte   // decoded
	SecurityGroupIDs []string // or names
	InstanceProfile  string
	InterfaceID      string                       `json:",omitempty"` // an existing primary interface
	SpotMaxMicros    int64                        `json:",omitempty"` // per hour; 0 means the on-demand price
	Unserved         string                       `json:",omitempty"` // a field that launches refuse
	SubnetID         string                       `json:",omitempty"`
	Zone             string                       `json:",omitempty"` // name or ID
	Devices          []BlockDevice                // added to the image's, or replacing those of the same name
	Monitoring       bool                         // detailed monitoring by CloudWatch
	Market           string                       `json:",omitempty"` // Spot or CapacityBlock; "" = as the call says
	Reservation      ReservationChoice            `json:",omitzero"`
	Placement        PlacementChoice              `json:",omitzero"`
	Tenancy          string                       `json:",omitempty"` // default or dedicated; "" = not set
	Tags             map[string]map[string]string // by resource type: instance, volume, network-interface …
	Description      string
	// Raw holds the rest of the request's data unchanged, for clients that read their template back.
	Raw map[string]string
}

// Over returns d with its unset fields taken from base.
func (d TemplateData) Over(base TemplateData) TemplateData {
	d.ImageID = cmp.Or(d.ImageID, base.ImageID)
	d.InstanceType = cmp.Or(d.InstanceType, base.InstanceType)
	d.InstanceProfile = cmp.Or(d.InstanceProfile, base.InstanceProfile)
	d.InterfaceID = cmp.Or(d.InterfaceID, base.InterfaceID)
	d.SpotMaxMicros = cmp.Or(d.SpotMaxMicros, base.SpotMaxMicros)
	d.Unserved = cmp.Or(d.Unserved, base.Unserved)
	d.SubnetID, d.Zone = cmp.Or(d.SubnetID, base.SubnetID), cmp.Or(d.Zone, base.Zone)
	if d.UserData == nil {
		d.UserData = base.UserData
	}
	if d.SecurityGroupIDs == nil {
		d.SecurityGroupIDs = base.SecurityGroupIDs
	}
	if d.Tags == nil {
		d.Tags = base.Tags
	}
	if d.Devices == nil {
		d.Devices = base.Devices
	}
	d.Monitoring = d.Monitoring || base.Monitoring
	d.Market = cmp.Or(d.Market, base.Market)
	d.Reservation = cmp.Or(d.Reservation, base.Reservation)
	d.Placement = cmp.Or(d.Placement, base.Placement)
	d.Tenancy = cmp.Or(d.Tenancy, base.Tenancy)
	d.Raw = rawOver(d.Raw, base.Raw)
	return d
}

// place returns an override with the subnet and the zone of d, if it names no subnet of its own.
func (d TemplateData) place(o Override) Override {
	if o.SubnetID == "" {
		o.SubnetID, o.Zone = d.SubnetID, cmp.Or(o.Zone, d.Zone)
	}
	return o
}

// rawOver returns parameters with those of base added whose first name does not occur: "MetadataOptions" in
// "MetadataOptions.HttpTokens".
func rawOver(raw, base map[string]string) map[string]string {
	first := func(path string) string {
		name, _, _ := strings.Cut(path, ".")
		return name
	}
	given := map[string]bool{}
	for path := range raw {
		given[first(path)] = true
	}
	out := merged(raw)
	for path, value := range base {
		if !given[first(path)] {
			out[path] = value
		}
	}
	return out
}

// templates holds the launch templates.
type templates struct {
	*core
	tokens *tokens
	byID   map[string]*LaunchTemplate
}

func newTemplates(k *tokens) *templates {
	return &templates{core: k.core, tokens: k, byID: map[string]*LaunchTemplate{}}
}

// CreateLaunchTemplate creates a template with its first version.
func (s *templates) CreateLaunchTemplate(
	name string, data TemplateData, tags map[string]string,
) (LaunchTemplate, error) {
	return s.CreateLaunchTemplateOnce("", name, data, tags)
}

// CreateLaunchTemplateOnce creates a template like CreateLaunchTemplate. The same client token returns the same
// template again.
func (s *templates) CreateLaunchTemplateOnce(
	clientToken, name string, data TemplateData, tags map[string]string,
) (LaunchTemplate, error) {
	if len(name) < 3 || len(name) > 128 {
		return LaunchTemplate{}, apiError("InvalidLaunchTemplateName.MalformedException",
			"A launch template name has 3 to 128 characters, '%s' has %d", name, len(name))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id, remember, err := s.tokens.created("template/", clientToken, []any{name, data, tags})
	if err != nil {
		return LaunchTemplate{}, err
	}
	if t := s.byID[id]; t != nil {
		return *t, nil
	}
	if s.named(name) != nil {
		return LaunchTemplate{}, apiError("InvalidLaunchTemplateName.AlreadyExistsException",
			"Launch template name already in use: %s", name)
	}
	if len(s.byID) >= 5000 {
		return LaunchTemplate{}, apiError("LaunchTemplateLimitExceeded", "The region holds 5,000 launch templates")
	}
	t := &LaunchTemplate{
		ID: "lt-" + s.newID(), Name: name, CreatedAt: s.clock.Now(), CreatedBy: "arn:aws:iam::" + AccountID + ":root",
		Default: 1, Versions: []TemplateData{data}, Tags: tags,
	}
	s.byID[t.ID] = t
	s.store.put(bucketTemplates, t.ID, t)
	remember(t.ID)
	return *t, s.commit()
}

// DeleteLaunchTemplate deletes a template by ID or name.
func (s *templates) DeleteLaunchTemplate(id, name string) (LaunchTemplate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.find(id, name)
	if err != nil {
		return LaunchTemplate{}, err
	}
	delete(s.byID, t.ID)
	s.store.remove(bucketTemplates, t.ID)
	return *t, s.commit()
}

// LaunchTemplates returns all templates, by name.
func (s *templates) LaunchTemplates() []LaunchTemplate {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]LaunchTemplate, 0, len(s.byID))
	for _, t := range s.byID {
		c := *t
		c.Tags = s.tagged(t.ID, t.Tags)
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b LaunchTemplate) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// LaunchTemplate finds a template by ID or name.
func (s *templates) LaunchTemplate(id, name string) (LaunchTemplate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.find(id, name)
	if err != nil {
		return LaunchTemplate{}, err
	}
	return *t, nil
}

func (s *templates) named(name string) *LaunchTemplate {
	for _, t := range s.byID {
		if t.Name == name {
			return t
		}
	}
	return nil
}

func (s *templates) find(id, name string) (*LaunchTemplate, error) {
	switch {
	case id != "":
		if t := s.byID[id]; t != nil {
			return t, nil
		}
		return nil, noTemplate(id)
	case name != "":
		if t := s.named(name); t != nil {
			return t, nil
		}
		return nil, apiError("InvalidLaunchTemplateName.NotFoundException",
			"At least one of the launch templates specified in the request does not exist: %s", name)
	}
	return nil, apiError("MissingParameter", "The request must name a launch template by id or name")
}

// version finds a template and the data of a version: a number, $Latest, $Default or "" (the default).
func (s *templates) version(id, name, version string) (*LaunchTemplate, *TemplateData, error) {
	t, n, err := s.number(id, name, version)
	if err != nil {
		return nil, nil, err
	}
	return t, &t.Versions[n-1], nil
}

// number finds a template and the number of a version.
func (s *templates) number(id, name, version string) (*LaunchTemplate, int, error) {
	t, err := s.find(id, name)
	if err != nil {
		return nil, 0, err
	}
	n := t.Default
	switch version {
	case "", "$Default":
	case "$Latest":
		n = len(t.Versions)
	default:
		if n, err = strconv.Atoi(version); err != nil {
			return nil, 0, apiError("InvalidLaunchTemplateVersion.Malformed", "'%s' is not a version", version)
		}
	}
	if n < 1 || n > len(t.Versions) {
		return nil, 0, apiError("InvalidLaunchTemplateId.VersionNotFound",
			"Could not find launch template version %s of %s", version, t.Name)
	}
	return t, n, nil
}

// CreateLaunchTemplateVersion adds a version to a template and returns the template with the new version's number.
// Fields that data leaves unset come from the version that source names, if any.
func (s *templates) CreateLaunchTemplateVersion(
	id, name, source string, data TemplateData,
) (LaunchTemplate, int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, n, err := s.number(id, name, source)
	if err != nil {
		return LaunchTemplate{}, 0, err
	}
	if source != "" {
		data = data.Over(t.Versions[n-1])
	}
	changed := *t
	changed.Versions = append(slices.Clone(t.Versions), data)
	return s.replace(changed), len(changed.Versions), s.commit()
}

// SetDefaultVersion makes a version the default of its template.
func (s *templates) SetDefaultVersion(id, name, version string) (LaunchTemplate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, n, err := s.number(id, name, version)
	if err != nil {
		return LaunchTemplate{}, err
	}
	changed := *t
	changed.Default = n
	return s.replace(changed), s.commit()
}

// replace replaces a template with its changed copy. It does not modify the old one, as callers may hold copies of
// it.
func (s *templates) replace(t LaunchTemplate) LaunchTemplate {
	s.byID[t.ID] = &t
	s.store.put(bucketTemplates, t.ID, t)
	return t
}

func noTemplate(id string) *APIError {
	return apiError("InvalidLaunchTemplateId.NotFound",
		"The specified launch template, with template ID %s, does not exist.", id)
}
