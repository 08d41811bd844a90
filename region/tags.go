package region

import (
	"maps"
	"slices"
	"strings"
)

// tagger edits the tags of all resources. Tags of instances are part of their records, all others are in core.tags.
type tagger struct {
	*core
	instances *instances
	// own returns the tags with which a resource other than an instance was created; false if there is none.
	own func(id string) (map[string]string, bool)
}

func newTagger(c *core, i *instances, own func(id string) (map[string]string, bool)) *tagger {
	return &tagger{core: c, instances: i, own: own}
}

// CreateTags adds tags to resources.
func (s *tagger) CreateTags(ids []string, tags map[string]string) error {
	return s.edit(ids, func(map[string]string) map[string]*string {
		changes := make(map[string]*string, len(tags))
		for k, v := range tags {
			changes[k] = &v
		}
		return changes
	})
}

// DeleteTags removes tags from resources; a nil value stands for any value.
func (s *tagger) DeleteTags(ids []string, tags map[string]*string) error {
	return s.edit(ids, func(have map[string]string) map[string]*string {
		changes := map[string]*string{}
		for k, v := range tags {
			if old, ok := have[k]; ok && (v == nil || old == *v) {
				changes[k] = nil
			}
		}
		return changes
	})
}

// edit applies to each resource the changes that a function returns for its tags: new values, and nil for tags to
// delete.
func (s *tagger) edit(ids []string, change func(map[string]string) map[string]*string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		// Volumes have tags, but no records.
		if _, ok := s.own(id); !ok && s.instances.byID[id] == nil && !strings.HasPrefix(id, "vol-") {
			return noResource(id)
		}
	}
	for _, id := range ids {
		if i := s.instances.byID[id]; i != nil {
			i.Tags = retagged(i.Tags, change(i.Tags))
			s.instances.save(i)
			continue
		}
		own, _ := s.own(id)
		changes := change(s.tagged(id, own))
		if s.tags[id] == nil {
			s.tags[id] = map[string]*string{}
		}
		maps.Copy(s.tags[id], changes)
		s.store.put(bucketTags, id, s.tags[id])
	}
	return s.commit()
}

// missing returns the errors about resources that do not exist, by the prefix of their IDs.
var missing = map[string]func(id string) *APIError{
	"i": noInstance, "subnet": noSubnet, "eni": noInterface, "sg": noSecurityGroup, "ami": noImage, "lt": noTemplate,
	"cr": noCapacityReservation, "pg": noPlacementGroup, "scr": noReservation,
	"vpc": func(id string) *APIError {
		return apiError("InvalidVpcID.NotFound", "The vpc ID '%s' does not exist", id)
	},
	"sgr": untagged("security group rules"), "fleet": untagged("fleets"), "sir": untagged("spot requests"),
}

func untagged(kind string) func(id string) *APIError {
	return func(id string) *APIError {
		return apiError("UnsupportedOperation", "The simulated region keeps no tags of %s: leave out '%s'.", kind, id)
	}
}

func noResource(id string) *APIError {
	prefix, _, _ := strings.Cut(id, "-")
	if no := missing[prefix]; no != nil {
		return no(id)
	}
	return apiError("InvalidID", "The ID '%s' is not valid", id)
}

// retagged returns tags with changes: new values, and nil for tags that are deleted.
func retagged(tags map[string]string, changes map[string]*string) map[string]string {
	out := merged(tags)
	for k, v := range changes {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = *v
		}
	}
	return out
}

// ownTags returns the tags with which a resource other than an instance was created; false if there is no such
// resource.
func (r *Region) ownTags(id string) (map[string]string, bool) {
	if id == VPCID {
		return nil, true
	}
	if s := r.network.subnet(id); s != nil {
		return s.Tags, true
	}
	if q := r.network.reservation(id); q != nil {
		return q.Tags, true
	}
	if e := r.interfaces.byID[id]; e != nil {
		return e.Tags, true
	}
	if t := r.templates.byID[id]; t != nil {
		return t.Tags, true
	}
	if c := r.capacityReservations.byID[id]; c != nil {
		return c.Tags, true
	}
	if g := r.placementGroups.byID[id]; g != nil {
		return g.Tags, true
	}
	if i := r.images.image(id); i != nil {
		return i.Tags, true
	}
	groups := r.securityGroups.list()
	if i := slices.IndexFunc(groups, func(g SecurityGroup) bool { return g.ID == id }); i >= 0 {
		return groups[i].Tags, true
	}
	return nil, false
}
