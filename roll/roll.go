// Package roll replaces the nodes of NodePools and Auto Scaling groups, as kops' rolling update does.
//
// A roll keeps no state outside the objects that it changes: which nodes need an update follows from what they were
// made from and from when a forced roll began. To continue an interrupted roll, start it again.
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

// Row is a NodePool or a group in the table of a roll, with kops' columns.
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
	Problem  string     `json:"problem,omitempty"` // why the status is Broken
	// InTheWay are the pods that block a roll before it begins.
	InTheWay []string `json:"inTheWay,omitempty"`
}

// Outdated is a node that needs an update.
type Outdated struct {
	Node     string `json:"node,omitempty"` // "" if the instance has not joined the cluster
	Instance string `json:"instance,omitempty"`
	Why      string `json:"why"`
}

// UnknownError names pools or groups that do not exist, and lists those that do.
type UnknownError struct {
	Kind          string // NodePool or group
	Names, Exists []string
}

func (e *UnknownError) Error() string {
	there := "there is none"
	if len(e.Exists) > 0 {
		there = "there are: " + strings.Join(e.Exists, ", ")
	}
	return fmt.Sprintf("%s not found: %s; %s", e.Kind, strings.Join(e.Names, ", "), there)
}

// chosen returns the elements of all that names select, in their original order, or all of them if names is empty.
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

// olderThanRoll returns a reason if something was created before a forced roll began, and "" if it was not or if either
// time is unknown.
func olderThanRoll(created, rolled time.Time) string {
	if rolled.IsZero() || created.IsZero() || !created.Before(rolled) {
		return ""
	}
	return "created before the roll of " + rolled.UTC().Format(time.RFC3339)
}
