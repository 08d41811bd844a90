// Package firstfit places pods one by one: on nodes that have room, else on machines that are planned already and grow with
// their load, else on a new machine. It decides as Karpenter v1.14 does, at the speed of integers: a machine is the set of
// types that still hold its load, with the zones, capacity types and custom labels its pods leave it. It never takes a step
// back, so whatever was refused for good is not looked at again.
//
// Where Karpenter and kube-scheduler differ it does what kube-scheduler allows: one pod must match all affinity terms, only
// the first pod of a group may go without company, and pods on a machine whose zone is decided later are counted then.
package firstfit

import (
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// ShapeCount is so many pods of a shape.
type ShapeCount struct{ Shape, N int }

// Machine is a machine that is planned, with what it may still become.
type Machine struct {
	View     int
	Shapes   []ShapeCount       // in the order in which they came; a shape may come again
	Types    rules.Bits         // that hold the load and the daemons
	Zones    []bool             // by View.Zones
	Capacity []bool             // by View.Capacities
	Custom   model.Requirements // on labels that neither type nor offering decides
	Load     model.Resources    // of the pods
	Relaxed  bool               // minValues need not be kept
}

// On is so many pods on a node or machine, by its index.
type On struct{ Index, N int }

// Result says where pods of a shape went.
type Result struct {
	Nodes    []On
	Machines []On
	Left     int
	Rule     model.Rule // why the rest has no place; "" if none is left
}
