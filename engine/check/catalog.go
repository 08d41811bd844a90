package check

import "github.com/nodeless/nodeless/engine/model"

// catalog is what a pool can launch: its types by name, each with its labels in each of its offerings.
//
// Most plans launch nothing, so types are read only when a promise is about one.
type catalog struct {
	pool     *model.Pool
	types    map[string]*kind // nil = not read
	typeKeys map[string]bool  // labels that some type has, so that the type decides them
}

type kind struct {
	*model.InstanceType
	options []option
	bare    model.Requirements // labels independent of the offering
}

// option is a type in one of its offerings.
type option struct {
	kind    *kind
	offer   *model.Offering
	labels  model.Requirements
	daemons *model.Resources // requests of its daemons; filled on demand
}

func newCatalog(p *model.Pool) *catalog { return &catalog{pool: p} }

// read reads the types, once.
func (c *catalog) read() {
	if c.types != nil {
		return
	}
	c.types, c.typeKeys = map[string]*kind{}, map[string]bool{model.LabelInstanceType: true}
	for i := range c.pool.Types {
		t := &c.pool.Types[i]
		for _, r := range t.Requirements {
			c.typeKeys[r.Key] = true
		}
		if c.types[t.Name] == nil {
			c.types[t.Name] = &kind{InstanceType: t}
		}
	}
}

// decides reports whether a type's labels decide a key.
func (c *catalog) decides(key string) bool {
	c.read()
	return c.typeKeys[key]
}

// kind returns the type of the name, nil if the pool does not have it.
func (c *catalog) kind(name string) *kind {
	if c == nil {
		return nil
	}
	c.read()
	k := c.types[name]
	if k == nil || k.bare != nil {
		return k
	}
	k.bare = labelsOf(k.InstanceType, "", "")
	k.options = make([]option, len(k.Offerings))
	for i := range k.Offerings {
		o := &k.Offerings[i]
		k.options[i] = option{kind: k, offer: o, labels: labelsOf(k.InstanceType, o.Zone, o.CapacityType)}
	}
	return k
}

// labelsOf returns the labels that a type gives to its node in an offering.
func labelsOf(t *model.InstanceType, zone, capacityType string) model.Requirements {
	own := []model.Requirement{model.OneOf(model.LabelInstanceType, t.Name)}
	if zone != "" {
		own = append(own, model.OneOf(model.LabelZone, zone), model.OneOf(model.LabelCapacityType, capacityType))
	}
	for _, r := range t.Requirements {
		if r.Key != model.LabelInstanceType && (zone == "" || r.Key != model.LabelZone && r.Key != model.LabelCapacityType) {
			own = append(own, r)
		}
	}
	return model.NewRequirements(own...)
}

// allows reports whether a node with these labels of type and offering satisfies the requirements.
func allows(rs, labels model.Requirements) bool {
	for _, r := range rs {
		if have, ok := labels.Get(r.Key); ok && !have.Overlaps(r) {
			return false
		}
	}
	return true
}

// custom returns the requirements on labels that neither type nor offering decides: the node gets them from its
// claim.
func (c *catalog) custom(rs model.Requirements) model.Requirements {
	var out model.Requirements
	for _, r := range rs {
		if !c.decides(r.Key) && r.Key != model.LabelZone && r.Key != model.LabelCapacityType {
			out = append(out, r)
		}
	}
	return out
}

// alternatives returns the conjunctions, at least one of which a pod needs.
func (j *judge) alternatives(s *model.Shape) []model.Requirements {
	if out, ok := j.terms[s]; ok {
		return out
	}
	out := []model.Requirements{s.Required}
	if len(s.AnyOf) > 0 {
		out = nil
	}
	for _, t := range s.AnyOf {
		out = append(out, s.Required.And(t))
	}
	j.terms[s] = out
	return out
}

// every reports whether the labels of type and offering, and then the custom ones, certainly satisfy all
// requirements.
func every(wants, labels, custom model.Requirements) bool {
	for _, w := range wants {
		if w.Key == model.NodeNameField {
			if !anyName(w) {
				return false
			}
			continue
		}
		have, ok := labels.Get(w.Key)
		if ok && !have.Overlaps(w) {
			return false
		}
		if ok {
			continue
		}
		if have, ok = custom.Get(w.Key); ok && !have.SubsetOf(w) || !ok && !w.AllowsAbsence() {
			return false
		}
	}
	return true
}

// satisfied reports whether labels satisfy one of the pod's alternatives, and whether each of its volumes is
// accessible.
func (j *judge) satisfied(s *model.Shape, labels, custom model.Requirements) (constraints, volumes bool) {
	for _, wants := range j.alternatives(s) {
		constraints = constraints || every(wants, labels, custom)
	}
	volumes = true
	for i := range s.Volumes {
		reachable := len(s.Volumes[i].Topology) == 0
		for _, wants := range s.Volumes[i].Topology {
			reachable = reachable || every(wants, labels, custom)
		}
		volumes = volumes && reachable
	}
	return constraints, volumes
}
