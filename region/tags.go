package region

import "strings"

// tagger edits the tags of all resources. Those of instances are part of their records, all others are in core.tags.
type tagger struct {
	*core
	instances *instances
}

func newTagger(c *core, i *instances) *tagger { return &tagger{core: c, instances: i} }

// CreateTags adds tags to resources.
func (s *tagger) CreateTags(ids []string, tags map[string]string) error {
	return s.edit(ids, func(have map[string]string) map[string]string { return merged(have, tags) })
}

// DeleteTags removes tags from resources; a nil value stands for any value.
func (s *tagger) DeleteTags(ids []string, tags map[string]*string) error {
	return s.edit(ids, func(have map[string]string) map[string]string {
		out := merged(have)
		for k, v := range tags {
			if v == nil || out[k] == *v {
				delete(out, k)
			}
		}
		return out
	})
}

func (s *tagger) edit(ids []string, change func(map[string]string) map[string]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if strings.HasPrefix(id, "i-") && s.instances.byID[id] == nil {
			return noInstance(id)
		}
	}
	for _, id := range ids {
		if i := s.instances.byID[id]; i != nil {
			i.Tags = change(i.Tags)
			s.instances.save(i)
			continue
		}
		s.tags[id] = change(s.tags[id])
		s.store.put(bucketTags, id, s.tags[id])
	}
	return s.commit()
}
