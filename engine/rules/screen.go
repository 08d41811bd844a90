package rules

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// Screen finds the pools that could launch a node for a pod at all, so that hopeless pods cost a plan next to nothing,
// however many pods and pools there are. It computes once what depends on a pool alone, and once for all pods what
// depends on a requirement or a set of tolerations.
//
// It may keep pools that cannot help: it ignores volumes, ports, minValues and other pods.
type Screen struct {
	views     []*View
	open      Bits              // by view: it is ready and has a launchable type
	types     []Bits            // by view: launchable types: eligible, in stock, within limits
	largest   []model.Resources // by view: the maximum of each resource among launchable types
	most      model.Resources   // maximum of largest
	front     [][]int           // by view: see frontOf; nil until needed
	catalogOf []int             // by view
	catalogs  []*catalogIndex
	custom    map[string]*labelIndex // by key: the requirements of pools on labels that types do not decide
	wanted    map[string]*wanted     // by requirement
	tolerated map[string]Bits        // by tolerations: views
}

// catalogIndex finds the types of a catalog, which pools of one node class share, by their labels.
type catalogIndex struct {
	view *View // any view with the catalog
	keys map[string]*labelIndex
}

// wanted is the views and types that one requirement leaves.
type wanted struct {
	views Bits
	types []Bits // by catalog; nil where types do not decide the label
}

// NewScreen prepares views for what they may launch within the headroom of their pools.
func NewScreen(views []*View, rooms []Headroom) *Screen {
	s := &Screen{
		views: views, open: NewBits(len(views)), front: make([][]int, len(views)),
		custom: map[string]*labelIndex{}, wanted: map[string]*wanted{}, tolerated: map[string]Bits{},
	}
	known := map[*model.InstanceType]int{}
	for i, v := range views {
		s.addView(v, rooms[i])
		if !s.types[i].Empty() && v.Pool.NotReady == "" {
			s.open.Set(i)
			s.most = s.most.Max(s.largest[i])
		}
		var first *model.InstanceType
		if len(v.Pool.Types) > 0 {
			first = &v.Pool.Types[0]
		}
		c, ok := known[first]
		if !ok || len(s.catalogs[c].view.Pool.Types) != len(v.Pool.Types) {
			c = len(s.catalogs)
			known[first] = c
			s.catalogs = append(s.catalogs, &catalogIndex{view: v, keys: map[string]*labelIndex{}})
		}
		s.catalogOf = append(s.catalogOf, c)
	}
	return s
}

func (s *Screen) addView(v *View, room Headroom) {
	types, largest := NewBits(len(v.Net)), model.Resources{}
	for t := range v.Net {
		capacity := &v.Pool.Types[t].Capacity
		if !v.Eligible.Has(t) || !room.Allows(&v.Pool.Limits, capacity) ||
			!slices.ContainsFunc(v.Offers[t], func(f Offer) bool { return f.Available }) {
			continue
		}
		types.Set(t)
		largest = largest.Max(v.Net[t])
	}
	s.types, s.largest = append(s.types, types), append(s.largest, largest)
}

// frontOf returns the view's launchable types that are not dominated in every resource.
func (s *Screen) frontOf(view int) []int {
	if s.front[view] != nil {
		return s.front[view]
	}
	net, front := s.views[view].Net, []int{}
	for t := range s.types[view].All() {
		if !slices.ContainsFunc(front, func(o int) bool { return net[t].Fits(net[o]) }) {
			front = append(slices.DeleteFunc(front, func(o int) bool { return net[o].Fits(net[t]) }), t)
		}
	}
	s.front[view] = front
	return front
}

// Views returns the views that could launch a node for one pod with this request, other constraints aside.
func (s *Screen) Views(
	request model.Resources, required model.Requirements, anyOf []model.Requirements, tolerations []model.Toleration,
) Bits {
	out := NewBits(len(s.views))
	if !request.Fits(s.most) {
		return out
	}
	from := and(s.open, s.tolerating(tolerations))
	for _, wants := range Alternatives(required, anyOf) {
		views, types := s.allowing(from, wants)
		for i := range views.All() {
			if !out.Has(i) && request.Fits(s.largest[i]) && s.holds(i, request, types[s.catalogOf[i]]) {
				out.Set(i)
			}
		}
	}
	return out
}

// allowing narrows the views and, by catalog, the types of those that are left; nil means all types.
func (s *Screen) allowing(views Bits, wants model.Requirements) (Bits, []Bits) {
	types := make([]Bits, len(s.catalogs))
	for _, w := range wants {
		x := s.want(w)
		if views = and(views, x.views); views.Empty() {
			break
		}
		for c, left := range x.types {
			switch {
			case left == nil:
			case types[c] == nil:
				types[c] = left
			default:
				types[c] = and(types[c], left)
			}
		}
	}
	return views, types
}

// holds reports whether one of these types, or of all types if nil, has room for the request.
func (s *Screen) holds(view int, request model.Resources, types Bits) bool {
	net := s.views[view].Net
	if types == nil {
		return slices.ContainsFunc(s.frontOf(view), func(t int) bool { return request.Fits(net[t]) })
	}
	for t := range and(s.types[view], types).All() {
		if request.Fits(net[t]) {
			return true
		}
	}
	return false
}

// tolerating returns the views whose taints are tolerated.
func (s *Screen) tolerating(tolerations []model.Toleration) Bits {
	text := tolerationsText(tolerations)
	out, ok := s.tolerated[text]
	if !ok {
		out = NewBits(len(s.views))
		for i, v := range s.views {
			if _, bad := model.Untolerated(v.Pool.Taints, tolerations); !bad {
				out.Set(i)
			}
		}
		s.tolerated[text] = out
	}
	return out
}

func (s *Screen) want(w model.Requirement) *wanted {
	text := w.String()
	out, ok := s.wanted[text]
	if !ok {
		out = s.leaves(w)
		s.wanted[text] = out
	}
	return out
}

// leaves computes what View.option says about one requirement, for all views.
func (s *Screen) leaves(w model.Requirement) *wanted {
	out := &wanted{views: NewBits(len(s.views)), types: make([]Bits, len(s.catalogs))}
	var custom Bits
	for i, v := range s.views {
		c := s.catalogOf[i]
		var ok bool
		switch {
		case w.Key == model.LabelZone:
			ok = slices.ContainsFunc(v.Zones, w.Has)
		case w.Key == model.LabelCapacityType:
			ok = slices.ContainsFunc(v.Capacities, w.Has)
		case w.Key == model.NodeNameField:
			ok = anyName(w)
		case s.catalogs[c].view.OfTypes(w.Key):
			if out.types[c] == nil {
				out.types[c] = s.catalogs[c].index(w.Key).allowing(w)
			}
			ok = s.types[i].Intersects(out.types[c])
		default:
			if custom == nil {
				custom = s.customIndex(w.Key).allowing(w)
			}
			ok = custom.Has(i)
		}
		if ok {
			out.views.Set(i)
		}
	}
	return out
}

func (c *catalogIndex) index(key string) *labelIndex {
	x := c.keys[key]
	if x == nil {
		types := c.view.Pool.Types
		x = newLabelIndex(len(types), func(t int) (model.Requirement, bool) { return TypeLabel(&types[t], key) })
		c.keys[key] = x
	}
	return x
}

func (s *Screen) customIndex(key string) *labelIndex {
	x := s.custom[key]
	if x == nil {
		x = newLabelIndex(len(s.views), func(i int) (model.Requirement, bool) {
			return s.views[i].Requirements.Get(key)
		})
		s.custom[key] = x
	}
	return x
}

// labelIndex finds the owners of a label, types or pools, by the values the label may have.
type labelIndex struct {
	size   int
	values []string // distinct, of owners with exactly one
	with   map[string]Bits
	absent Bits // owners without the label
	others []other
}

// other is an owner whose label may have several values.
type other struct {
	owner int
	have  model.Requirement
}

func newLabelIndex(size int, labelOf func(int) (model.Requirement, bool)) *labelIndex {
	x := &labelIndex{size: size, with: map[string]Bits{}, absent: NewBits(size)}
	for i := range size {
		have, ok := labelOf(i)
		switch {
		case !ok:
			x.absent.Set(i)
		case have.Complement || len(have.Values) != 1 || have.Gte != nil || have.Lte != nil:
			x.others = append(x.others, other{i, have})
		default:
			value := have.Values[0]
			if x.with[value] == nil {
				x.with[value] = NewBits(size)
				x.values = append(x.values, value)
			}
			x.with[value].Set(i)
		}
	}
	return x
}

// allowing returns the owners whose label can satisfy the requirement.
func (x *labelIndex) allowing(w model.Requirement) Bits {
	out := NewBits(x.size)
	values := x.values
	if !w.Complement && len(w.Values) < len(values) {
		values = w.Values
	}
	for _, value := range values {
		if owners := x.with[value]; owners != nil && w.Has(value) {
			out.add(owners)
		}
	}
	if w.AllowsAbsence() {
		out.add(x.absent)
	}
	for i := range x.others {
		if o := &x.others[i]; o.have.Overlaps(w) {
			out.Set(o.owner)
		}
	}
	return out
}
