package region

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodeless/nodeless/catalog"
)

// ClusterInfo is what EKS says of the cluster.
type ClusterInfo struct {
	Name, Version, Endpoint, CA /* PEM */, ServiceCIDR string
}

// SetCluster says which cluster EKS knows, and makes its interruption queue.
func (r *Region) SetCluster(c ClusterInfo) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cluster = c
	r.ensureQueue(c.Name)
	r.store.put(bucketMeta, metaCluster, c)
	return r.commit()
}

// Cluster is EKS's DescribeCluster.
func (r *Region) Cluster(name string) (ClusterInfo, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cluster.Name == "" || r.cluster.Name != name {
		return ClusterInfo{}, &APIError{Code: "ResourceNotFoundException", Message: "No cluster found for name: " + name + ".", HTTPStatus: 404}
	}
	return r.cluster, nil
}

// Clusters are the names of EKS's clusters.
func (r *Region) Clusters() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cluster.Name == "" {
		return nil
	}
	return []string{r.cluster.Name}
}

// InstanceProfile is an IAM instance profile.
type InstanceProfile struct {
	Name, ID, Path string
	Roles          []string
	Tags           map[string]string
	CreatedAt      time.Time
}

// Role is an IAM role.
type Role struct{ Name string }

func noEntity(kind, name string) *APIError {
	return &APIError{Code: "NoSuchEntity", Message: fmt.Sprintf("%s %s cannot be found.", kind, name), HTTPStatus: 404}
}

// Role finds a role. Any name is taken for a role of the account, except those beginning with "missing": the region
// enforces no permissions, and users come with roles of their own.
func (r *Region) Role(name string) (Role, error) {
	if name == "" || strings.HasPrefix(name, "missing") {
		return Role{}, noEntity("Role", name)
	}
	return Role{Name: name}, nil
}

// CreateInstanceProfile makes a profile without role.
func (r *Region) CreateInstanceProfile(name, path string, tags map[string]string) (InstanceProfile, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name == "" {
		return InstanceProfile{}, &APIError{Code: "ValidationError", Message: "InstanceProfileName is missing", HTTPStatus: 400}
	}
	if r.profiles[name] != nil {
		return InstanceProfile{}, &APIError{Code: "EntityAlreadyExists", Message: "Instance Profile " + name + " already exists.", HTTPStatus: 409}
	}
	p := &InstanceProfile{Name: name, ID: "AIPA" + strings.ToUpper(r.newID()), Path: cmp.Or(path, "/"), Tags: merged(tags), CreatedAt: r.clock.Now()}
	r.profiles[name] = p
	return r.keepProfile(p)
}

func (r *Region) keepProfile(p *InstanceProfile) (InstanceProfile, error) {
	r.store.put(bucketProfiles, p.Name, p)
	return *p, r.commit()
}

// InstanceProfile finds a profile.
func (r *Region) InstanceProfile(name string) (InstanceProfile, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.profiles[name]; p != nil {
		return *p, nil
	}
	return InstanceProfile{}, noEntity("Instance Profile", name)
}

// InstanceProfiles are the profiles below a path, by name.
func (r *Region) InstanceProfiles(path string) []InstanceProfile {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []InstanceProfile
	for _, p := range r.profiles {
		if strings.HasPrefix(p.Path, path) {
			out = append(out, *p)
		}
	}
	slices.SortFunc(out, func(a, b InstanceProfile) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// DeleteInstanceProfile deletes a profile that has no role.
func (r *Region) DeleteInstanceProfile(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.profiles[name]
	switch {
	case p == nil:
		return noEntity("Instance Profile", name)
	case len(p.Roles) > 0:
		return &APIError{Code: "DeleteConflict", Message: "Cannot delete entity, must remove roles from instance profile first.", HTTPStatus: 409}
	}
	delete(r.profiles, name)
	r.store.remove(bucketProfiles, name)
	return r.commit()
}

// TagInstanceProfile adds tags to a profile.
func (r *Region) TagInstanceProfile(name string, tags map[string]string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.profiles[name]
	if p == nil {
		return noEntity("Instance Profile", name)
	}
	p.Tags = merged(p.Tags, tags)
	_, err := r.keepProfile(p)
	return err
}

// AddRoleToInstanceProfile puts a role into a profile, which can hold one.
func (r *Region) AddRoleToInstanceProfile(name, role string) error {
	if _, err := r.Role(role); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.profiles[name]
	switch {
	case p == nil:
		return noEntity("Instance Profile", name)
	case len(p.Roles) > 0:
		return &APIError{Code: "LimitExceeded", Message: "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1", HTTPStatus: 409}
	}
	p.Roles = []string{role}
	_, err := r.keepProfile(p)
	return err
}

// RemoveRoleFromInstanceProfile takes the role out.
func (r *Region) RemoveRoleFromInstanceProfile(name, role string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.profiles[name]
	if p == nil || !slices.Contains(p.Roles, role) {
		return noEntity("Role "+role+" in instance profile", name)
	}
	p.Roles = nil
	_, err := r.keepProfile(p)
	return err
}

// CreateTags adds tags to instances and other resources.
func (r *Region) CreateTags(ids []string, tags map[string]string) error {
	return r.editTags(ids, func(have map[string]string) map[string]string { return merged(have, tags) })
}

// DeleteTags takes tags away; a nil value deletes whatever the value is.
func (r *Region) DeleteTags(ids []string, tags map[string]*string) error {
	return r.editTags(ids, func(have map[string]string) map[string]string {
		out := merged(have)
		for k, v := range tags {
			if v == nil || out[k] == *v {
				delete(out, k)
			}
		}
		return out
	})
}

func (r *Region) editTags(ids []string, edit func(map[string]string) map[string]string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		if strings.HasPrefix(id, "i-") && r.instances[id] == nil {
			return apiError("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
		}
	}
	for _, id := range ids {
		if i := r.instances[id]; i != nil {
			i.Tags = edit(i.Tags)
			r.save(i)
			continue
		}
		r.tags[id] = edit(r.tags[id])
		r.store.put(bucketTags, id, r.tags[id])
	}
	return r.commit()
}

// ProductPrice is one row of the price list.
type ProductPrice struct {
	Type   *catalog.Type
	Micros int64
}

// PriceList is the on-demand price of every type of the region.
func (r *Region) PriceList() []ProductPrice {
	offers := r.goods.Offers()
	out := make([]ProductPrice, len(offers))
	for i, o := range offers {
		out[i] = ProductPrice{Type: o.Type, Micros: o.OnDemand}
	}
	return out
}
