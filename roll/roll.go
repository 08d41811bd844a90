// Package roll replaces the nodes of NodePools and of Auto Scaling groups by new ones, as kops' rolling update does.
//
// Nothing about a roll is stored elsewhere than in the objects that it is about: which nodes need an update follows
// from what they were made of, and from when a forced roll began. A roll that was interrupted goes on by being begun
// again.
package roll

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Statuses of a Row.
const (
	Ready       = "Ready" // no node needs an update
	NeedsUpdate = "NeedsUpdate"
	Updating    = "Updating" // a roll has begun
	Broken      = "Broken"   // it cannot launch new nodes
)

// Row is a NodePool or a group in the table of a roll, in kops' columns.
type Row struct {
	Name       string `json:"name"`
	Status     string `json:"status"`
	NeedUpdate int    `json:"needUpdate"`
	Ready      int    `json:"ready"` // up to date and Ready
	Min        *int   `json:"min,omitempty"`
	Target     int    `json:"target"`
	Max        *int   `json:"max,omitempty"`
	Nodes      int    `json:"nodes"`
	// Outdated are the nodes that need an update.
	Outdated []Outdated `json:"outdated,omitempty"`
	Problem  string     `json:"problem,omitempty"` // of a broken one
	// InTheWay are pods that stop a roll before it begins.
	InTheWay []string `json:"inTheWay,omitempty"`
}

// Outdated is a node that needs an update.
type Outdated struct {
	Node     string `json:"node,omitempty"` // "" means that the instance has not joined the cluster
	Instance string `json:"instance,omitempty"`
	Why      string `json:"why"`
}

// UnknownError names pools or groups that do not exist, and those that do.
type UnknownError struct {
	Kind          string // NodePool, or group
	Names, Exists []string
}

func (e *UnknownError) Error() string {
	there := "there is none"
	if len(e.Exists) > 0 {
		there = "there are: " + strings.Join(e.Exists, ", ")
	}
	return fmt.Sprintf("%s not found: %s; %s", e.Kind, strings.Join(e.Names, ", "), there)
}

// chosen returns the elements that names name, in their own order, or all if there are no names.
func chosen[T any](kind string, all []T, namesOf func(*T) []string, names []string) ([]T, error) {
	unknown := &UnknownError{Kind: kind}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(x T) bool { return slices.Contains(namesOf(&x), name) }) {
			unknown.Names = append(unknown.Names, name)
		}
	}
	if unknown.Names != nil {
		for i := range all {
			unknown.Exists = append(unknown.Exists, namesOf(&all[i])[0])
		}
		return nil, unknown
	}
	if len(names) == 0 {
		return all, nil
	}
	return slices.DeleteFunc(slices.Clone(all), func(x T) bool {
		return !slices.ContainsFunc(namesOf(&x), func(n string) bool { return slices.Contains(names, n) })
	}), nil
}

// olderThanRoll says that something was created before a forced roll began; "" if it was not.
func olderThanRoll(created, rolled time.Time) string {
	if rolled.IsZero() || !created.Before(rolled) {
		return ""
	}
	return "created before the roll of " + rolled.UTC().Format(time.RFC3339)
}
