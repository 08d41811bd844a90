package view

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Sort is an order of rows: by a field, a resource (by its requested share), age, price, pods, ready-in, or a label.
// eks-node-viewer's names mean what they mean there: creation, eks-node-viewer/node-age,
// eks-node-viewer/node-cpu-usage ….
type Sort struct {
	Key  string
	Desc bool
}

// Keys of Sort that are not fields.
const (
	SortAge     = "age" // youngest first
	SortPrice   = "price"
	SortPods    = "pods"
	SortReadyIn = "ready-in"
	SortName    = "name" // of namespaces and workloads
)

// ParseSort parses a key that =asc (the default) or =dsc may follow.
func ParseSort(text string) Sort {
	s := Sort{Key: text}
	if key, ok := strings.CutSuffix(text, "=asc"); ok {
		s.Key = key
	} else if key, ok := strings.CutSuffix(text, "=dsc"); ok {
		s.Key, s.Desc = key, true
	}
	switch s.Key {
	case "creation", "eks-node-viewer/node-age", "":
		s.Key = SortAge
	}
	if rest, ok := strings.CutPrefix(s.Key, "eks-node-viewer/node-"); ok {
		if resource, ok := strings.CutSuffix(rest, "-usage"); ok {
			s.Key = resource
		}
	}
	return s
}

// String returns the text that ParseSort parses.
func (s Sort) String() string {
	if s.Desc {
		return s.Key + "=dsc"
	}
	return s.Key + "=asc"
}

// rank is what a row is sorted by: group, number, text, name.
type rank[T any] struct {
	group  string
	number float64
	text   string
	name   string
	of     T
}

// sorted sorts ranks by group, then as s says, then by name.
func sorted[T any](ranks []rank[T], s Sort) {
	sign := 1
	if s.Desc {
		sign = -1
	}
	slices.SortFunc(ranks, func(a, b rank[T]) int {
		c := Natural(a.group, b.group)
		if c == 0 {
			c = sign * cmp.Compare(a.number, b.number)
		}
		if c == 0 {
			c = sign * Natural(a.text, b.text)
		}
		if c == 0 {
			c = Natural(a.name, b.name)
		}
		return c
	})
}

// ranked returns the rank of a node.
func ranked(x *nodeEntry, q *Query, resources []string) rank[*nodeEntry] {
	r := rank[*nodeEntry]{of: x, name: x.name()}
	if q.Group != "" {
		r.group = x.field(q.Group)
	}
	switch q.Sort.Key {
	case SortAge, "":
		r.number = -seconds(x.created())
	case SortPrice:
		r.number = float64(x.price())
	case SortPods:
		r.number = float64(x.counted.Pods)
	case SortReadyIn:
		if c := x.claim; c != nil && !c.Initialized.IsZero() {
			r.number = c.Initialized.Sub(c.Created).Seconds()
		}
	default:
		if i := slices.Index(resources, q.Sort.Key); i >= 0 {
			r.number = Share(x.counted.Requests[i], x.counted.Allocatable[i])
		} else {
			r.text = x.field(q.Sort.Key)
		}
	}
	return r
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// Share returns used as a share of offered, 0 if nothing is offered.
func Share(used, offered int64) float64 {
	if offered <= 0 {
		return 0
	}
	return float64(used) / float64(offered)
}

// Natural compares texts with numbers by value: ip-10-0-9-1 comes before ip-10-0-10-1.
func Natural(a, b string) int {
	for a != "" && b != "" {
		i, j := digits(a), digits(b)
		if i > 0 && j > 0 {
			x, y := strings.TrimLeft(a[:i], "0"), strings.TrimLeft(b[:j], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y), cmp.Compare(i, j)); c != 0 {
				return c
			}
			a, b = a[i:], b[j:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// digits returns how many digits a text begins with.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
