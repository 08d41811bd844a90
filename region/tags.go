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
	own       func(id string) map[string]string // with which a resource other than an instance was created
}

func newTagger(c *core, i *instances, own func(id string) map[string]string) *tagger {
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
		if strings.HasPrefix(id, "i-") && s.instances.byID[id] == nil {
			return noInstance(id)
		}
	}
	for _, id := range ids {
		if i := s.instances.byID[id]; i != nil {
			i.Tags = retagged(i.Tags, change(i.Tags))
			s.instances.save(i)
			continue
		}
		changes := change(s.tagged(id, s.own(id)))
		if s.tags[id] == nil {
			s.tags[id] = map[string]*string{}
		}
		maps.Copy(s.tags[id], changes)
		s.store.put(bucketTags, id, s.tags[id])
	}
	return s.commit()
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

// ownTags returns the tags with which a resource other than an instance was created; nil if there is no such resource.
func (r *Region) ownTags(id string) map[string]string {
	if s := r.network.subnet(id); s != nil {
		return s.Tags
	}
	if e := r.interfaces.byID[id]; e != nil {
		return e.Tags
	}
	if t := r.templates.byID[id]; t != nil {
		return t.Tags
	}
	if c := r.capacityReservations.byID[id]; c != nil {
		return c.Tags
	}
	if g := r.placementGroups.byID[id]; g != nil {
		return g.Tags
	}
	if i := r.images.image(id); i != nil {
		return i.Tags
	}
	groups := r.securityGroups.list()
	if i := slices.IndexFunc(groups, func(g SecurityGroup) bool { return g.ID == id }); i >= 0 {
		return groups[i].Tags
	}
	return nil
}
