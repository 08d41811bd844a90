package region

import (
	"cmp"
	"slices"
	"strconv"
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

// TemplateData is what instances of a template get.
type TemplateData struct {
	ImageID          string
	InstanceType     string
	UserData         []byte // decoded
	SecurityGroupIDs []string
	InstanceProfile  string
	Devices          []BlockDevice                // volumes beside or instead of the image's
	Monitoring       bool                         // detailed monitoring by CloudWatch
	Tags             map[string]map[string]string // by resource type: instance, volume, network-interface …
	Description      string
	// Raw is the rest of the request's data, as it came, for clients that read their template back.
	Raw map[string]string
}

// over is the data with everything it leaves open taken from base.
func (d TemplateData) over(base TemplateData) TemplateData {
	d.ImageID = cmp.Or(d.ImageID, base.ImageID)
	d.InstanceType = cmp.Or(d.InstanceType, base.InstanceType)
	d.InstanceProfile = cmp.Or(d.InstanceProfile, base.InstanceProfile)
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
	return d
}

// CreateLaunchTemplate makes a template with a first version.
func (r *Region) CreateLaunchTemplate(name string, data TemplateData, tags map[string]string) (LaunchTemplate, error) {
	if len(name) < 3 || len(name) > 128 {
		return LaunchTemplate{}, apiError("InvalidLaunchTemplateName.MalformedException", "A launch template name has 3 to 128 characters, '%s' has %d", name, len(name))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.templateNamed(name) != nil {
		return LaunchTemplate{}, apiError("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use: %s", name)
	}
	if len(r.templates) >= 5000 {
		return LaunchTemplate{}, apiError("LaunchTemplateLimitExceeded", "The region holds 5,000 launch templates")
	}
	t := &LaunchTemplate{
		ID: "lt-" + r.newID(), Name: name, CreatedAt: r.clock.Now(), CreatedBy: "arn:aws:iam::" + AccountID + ":root", Default: 1,
		Versions: []TemplateData{data}, Tags: tags,
	}
	r.templates[t.ID] = t
	r.store.put(bucketTemplates, t.ID, t)
	return *t, r.commit()
}

// DeleteLaunchTemplate deletes by id or name.
func (r *Region) DeleteLaunchTemplate(id, name string) (LaunchTemplate, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, err := r.findTemplate(id, name)
	if err != nil {
		return LaunchTemplate{}, err
	}
	delete(r.templates, t.ID)
	r.store.remove(bucketTemplates, t.ID)
	return *t, r.commit()
}

// LaunchTemplates are all templates, by name.
func (r *Region) LaunchTemplates() []LaunchTemplate {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]LaunchTemplate, 0, len(r.templates))
	for _, t := range r.templates {
		c := *t
		c.Tags = merged(t.Tags, r.tags[t.ID])
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b LaunchTemplate) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// LaunchTemplate finds one by id or name.
func (r *Region) LaunchTemplate(id, name string) (LaunchTemplate, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, err := r.findTemplate(id, name)
	if err != nil {
		return LaunchTemplate{}, err
	}
	return *t, nil
}

func (r *Region) templateNamed(name string) *LaunchTemplate {
	for _, t := range r.templates {
		if t.Name == name {
			return t
		}
	}
	return nil
}

func (r *Region) findTemplate(id, name string) (*LaunchTemplate, error) {
	switch {
	case id != "":
		if t := r.templates[id]; t != nil {
			return t, nil
		}
		return nil, apiError("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %s, does not exist.", id)
	case name != "":
		if t := r.templateNamed(name); t != nil {
			return t, nil
		}
		return nil, apiError("InvalidLaunchTemplateName.NotFoundException", "At least one of the launch templates specified in the request does not exist: %s", name)
	}
	return nil, apiError("MissingParameter", "The request must name a launch template by id or name")
}

// template finds a template and the data of a version: a number, $Latest, $Default or "" (the default).
func (r *Region) template(id, name, version string) (*LaunchTemplate, *TemplateData, error) {
	t, err := r.findTemplate(id, name)
	if err != nil {
		return nil, nil, err
	}
	n := t.Default
	switch version {
	case "", "$Default":
	case "$Latest":
		n = len(t.Versions)
	default:
		if n, err = strconv.Atoi(version); err != nil {
			return nil, nil, apiError("InvalidLaunchTemplateVersion.Malformed", "'%s' is not a version", version)
		}
	}
	if n < 1 || n > len(t.Versions) {
		return nil, nil, apiError("InvalidLaunchTemplateId.VersionNotFound", "Could not find launch template version %s of %s", version, t.Name)
	}
	return t, &t.Versions[n-1], nil
}
