package region

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// InstanceProfile is an IAM instance profile.
type InstanceProfile struct {
	Name, ID, Path string
	Roles          []string
	Tags           map[string]string
	CreatedAt      time.Time
}

// Role is an IAM role.
type Role struct{ Name string }

// profiles is the part of IAM that manages instance profiles and roles.
type profiles struct {
	*core
	byName map[string]*InstanceProfile
}

func newProfiles(c *core) *profiles { return &profiles{core: c, byName: map[string]*InstanceProfile{}} }

func noEntity(kind, name string) *APIError {
	return apiError("NoSuchEntity", "%s %s cannot be found.", kind, name)
}

// Role finds a role. Users bring their own roles, so every name is a role of the account unless it begins with
// "missing". Permissions are known only for roles that CreatePrincipal created.
func (s *profiles) Role(name string) (Role, error) {
	if name == "" || strings.HasPrefix(name, "missing") {
		return Role{}, noEntity("Role", name)
	}
	return Role{Name: name}, nil
}

// CreateInstanceProfile creates a profile without a role.
func (s *profiles) CreateInstanceProfile(name, path string, tags map[string]string) (InstanceProfile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name == "" {
		return InstanceProfile{}, apiError("ValidationError", "InstanceProfileName is missing")
	}
	if s.byName[name] != nil {
		return InstanceProfile{}, apiError("EntityAlreadyExists", "Instance Profile %s already exists.", name)
	}
	p := &InstanceProfile{
		Name: name, ID: "AIPA" + strings.ToUpper(s.newID()), Path: cmp.Or(path, "/"), Tags: merged(tags),
		CreatedAt: s.clock.Now(),
	}
	s.byName[name] = p
	s.store.put(bucketProfiles, name, p)
	return *p, s.commit()
}

// InstanceProfile finds a profile.
func (s *profiles) InstanceProfile(name string) (InstanceProfile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.byName[name]; p != nil {
		return *p, nil
	}
	return InstanceProfile{}, noEntity("Instance Profile", name)
}

// InstanceProfiles returns the profiles below a path, by name.
func (s *profiles) InstanceProfiles(path string) []InstanceProfile {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []InstanceProfile
	for _, p := range s.byName {
		if strings.HasPrefix(p.Path, path) {
			out = append(out, *p)
		}
	}
	slices.SortFunc(out, func(a, b InstanceProfile) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// DeleteInstanceProfile deletes a profile that has no role.
func (s *profiles) DeleteInstanceProfile(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.byName[name]
	switch {
	case p == nil:
		return noEntity("Instance Profile", name)
	case len(p.Roles) > 0:
		return apiError("DeleteConflict", "Cannot delete entity, must remove roles from instance profile first.")
	}
	delete(s.byName, name)
	s.store.remove(bucketProfiles, name)
	return s.commit()
}

// TagInstanceProfile adds tags to a profile.
func (s *profiles) TagInstanceProfile(name string, tags map[string]string) error {
	return s.edit(name, func(p *InstanceProfile) error {
		p.Tags = merged(p.Tags, tags)
		return nil
	})
}

// AddRoleToInstanceProfile adds a role to a profile, which can hold one.
func (s *profiles) AddRoleToInstanceProfile(name, role string) error {
	if _, err := s.Role(role); err != nil {
		return err
	}
	return s.edit(name, func(p *InstanceProfile) error {
		if len(p.Roles) > 0 {
			return apiError("LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1")
		}
		p.Roles = []string{role}
		return nil
	})
}

// RemoveRoleFromInstanceProfile removes the role from a profile.
func (s *profiles) RemoveRoleFromInstanceProfile(name, role string) error {
	missing := noEntity("Role "+role+" in instance profile", name)
	if _, err := s.InstanceProfile(name); err != nil {
		return missing
	}
	return s.edit(name, func(p *InstanceProfile) error {
		if !slices.Contains(p.Roles, role) {
			return missing
		}
		p.Roles = nil
		return nil
	})
}

// edit changes a profile and saves it.
func (s *profiles) edit(name string, change func(*InstanceProfile) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.byName[name]
	if p == nil {
		return noEntity("Instance Profile", name)
	}
	if err := change(p); err != nil {
		return err
	}
	s.store.put(bucketProfiles, name, p)
	return s.commit()
}
