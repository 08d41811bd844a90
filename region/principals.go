package region

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodeless/nodeless/region/iam"
)

// PrincipalKind is a kind of IAM identity.
type PrincipalKind string

// The kinds of principals that have policies.
const (
	UserPrincipal PrincipalKind = "user"
	RolePrincipal PrincipalKind = "role"
)

// Principal is a created IAM user or role with its inline policies.
type Principal struct {
	Kind           PrincipalKind
	Name, ID, Path string
	Trust          string            // a role's policy on who may assume it
	Policies       map[string]string // by name
	Tags           map[string]string
	CreatedAt      time.Time
	MaxSession     time.Duration `json:",omitempty"` // of a role's sessions; 0 means an hour
}

// ARN returns the principal's ARN.
func (p Principal) ARN() string {
	return "arn:aws:iam::" + AccountID + ":" + string(p.Kind) + p.Path + p.Name
}

// principals is the part of IAM and STS that manages users, roles, their policies and keys.
type principals struct {
	*core
	profiles *profiles
	byName   map[string]*Principal // by kind/name
	keys     map[string]AccessKey
}

func newPrincipals(c *core, p *profiles) *principals {
	return &principals{core: c, profiles: p, byName: map[string]*Principal{}, keys: map[string]AccessKey{}}
}

// title returns the kind as spelt in IAM's messages.
func (k PrincipalKind) title() string { return strings.ToUpper(string(k[:1])) + string(k[1:]) }

// prefix returns the prefix of the kind's IDs (IAM user guide, "IAM identifiers").
func (k PrincipalKind) prefix() string {
	if k == UserPrincipal {
		return "AIDA"
	}
	return "AROA"
}

// CreatePrincipal creates a user, or a role with a trust policy.
func (s *principals) CreatePrincipal(
	kind PrincipalKind, name, path, trust string, tags map[string]string,
) (Principal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := string(kind) + "/" + name
	if s.byName[key] != nil {
		return Principal{}, apiError("EntityAlreadyExists", "%s with name %s already exists.", kind.title(), name)
	}
	if kind == RolePrincipal {
		if _, err := iam.ParseTrust(trust); err != nil {
			return Principal{}, apiError("MalformedPolicyDocument", "%v", err)
		}
	}
	p := &Principal{
		Kind: kind, Name: name, ID: kind.prefix() + strings.ToUpper(s.newID()), Path: cmp.Or(path, "/"), Trust: trust,
		Policies: map[string]string{}, Tags: merged(tags), CreatedAt: s.clock.Now(),
	}
	s.byName[key] = p
	s.store.put(bucketPrincipals, key, p)
	return p.copy(), s.commit()
}

func (p *Principal) copy() Principal {
	c := *p
	c.Policies, c.Tags = maps.Clone(p.Policies), maps.Clone(p.Tags)
	return c
}

// Principal finds a created user or role. Roles that were not created exist too: see Role.
func (s *principals) Principal(kind PrincipalKind, name string) (Principal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.find(kind, name)
	if err != nil {
		return Principal{}, err
	}
	return p.copy(), nil
}

func (s *principals) find(kind PrincipalKind, name string) (*Principal, error) {
	if p := s.byName[string(kind)+"/"+name]; p != nil {
		return p, nil
	}
	return nil, apiError("NoSuchEntity", "The %s with name %s cannot be found.", kind, name)
}

// Principals returns the users or roles below a path, by name.
func (s *principals) Principals(kind PrincipalKind, path string) []Principal {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Principal
	for _, p := range s.byName {
		if p.Kind == kind && strings.HasPrefix(p.Path, path) {
			out = append(out, p.copy())
		}
	}
	slices.SortFunc(out, func(a, b Principal) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// DeletePrincipal deletes a user or role. It must have no policies and no access keys, and a role must be in no
// instance profile. Sessions of a role end with it.
func (s *principals) DeletePrincipal(kind PrincipalKind, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.find(kind, name)
	if err != nil {
		return err
	}
	if len(p.Policies) > 0 {
		return apiError("DeleteConflict", "Cannot delete entity, must delete policies first.")
	}
	for _, profile := range s.profiles.byName {
		if kind == RolePrincipal && slices.Contains(profile.Roles, name) {
			return apiError("DeleteConflict", "Cannot delete entity, must remove roles from instance profile first.")
		}
	}
	for id, k := range s.keys {
		switch {
		case k.Owner != kind || k.Name != name:
		case k.Session == "":
			return apiError("DeleteConflict", "Cannot delete entity, must delete access keys first.")
		default:
			delete(s.keys, id)
			s.store.remove(bucketAccessKeys, id)
		}
	}
	delete(s.byName, string(kind)+"/"+name)
	s.store.remove(bucketPrincipals, string(kind)+"/"+name)
	return s.commit()
}

// maxPolicies is the maximum total length of a principal's inline policies, without white space (IAM user guide, "IAM
// and STS quotas").
var maxPolicies = map[PrincipalKind]int{UserPrincipal: 2048, RolePrincipal: 10240}

// PutPolicy adds an inline policy, replacing any with the same name.
func (s *principals) PutPolicy(kind PrincipalKind, name, policy, document string) error {
	if _, err := iam.Parse(document); err != nil {
		return apiError("MalformedPolicyDocument", "%v", err)
	}
	return s.edit(kind, name, func(p *Principal) error {
		size := len(strings.Join(strings.Fields(document), ""))
		for other, text := range p.Policies {
			if other != policy {
				size += len(strings.Join(strings.Fields(text), ""))
			}
		}
		if most := maxPolicies[kind]; size > most {
			return apiError("LimitExceeded", "Maximum policy size of %d bytes exceeded for %s %s", most, kind, name)
		}
		p.Policies[policy] = document
		return nil
	})
}

// DeletePolicy deletes an inline policy.
func (s *principals) DeletePolicy(kind PrincipalKind, name, policy string) error {
	return s.edit(kind, name, func(p *Principal) error {
		if _, ok := p.Policies[policy]; !ok {
			return NoPolicy(kind, policy)
		}
		delete(p.Policies, policy)
		return nil
	})
}

// NoPolicy returns IAM's error for an inline policy that does not exist.
func NoPolicy(kind PrincipalKind, policy string) error {
	return apiError("NoSuchEntity", "The %s policy with name %s cannot be found.", kind, policy)
}

// SetTrust replaces the trust policy of a role.
func (s *principals) SetTrust(role, trust string) error {
	if _, err := iam.ParseTrust(trust); err != nil {
		return apiError("MalformedPolicyDocument", "%v", err)
	}
	return s.edit(RolePrincipal, role, func(p *Principal) error {
		p.Trust = trust
		return nil
	})
}

// SetMaxSession sets how long the sessions of a role may last.
func (s *principals) SetMaxSession(role string, d time.Duration) error {
	return s.edit(RolePrincipal, role, func(p *Principal) error {
		p.MaxSession = d
		return nil
	})
}

func (s *principals) edit(kind PrincipalKind, name string, change func(*Principal) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.find(kind, name)
	if err != nil {
		return err
	}
	if err := change(p); err != nil {
		return err
	}
	s.store.put(bucketPrincipals, string(kind)+"/"+name, p)
	return s.commit()
}
