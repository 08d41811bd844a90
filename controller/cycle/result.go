package cycle

import (
	"maps"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// Result is the outcome of carrying out a plan.
type Result struct {
	Created  []string          // NodeClaims
	Existing []string          // NodeClaims that an earlier run of the same plan created
	Claims   map[string]string // NodeClaims, created or existing, by the ID of their launch
	Removed  []string          // NodeClaims whose deletion was requested
	Begun    []string          // IDs of commands whose nodes are marked
	Finished []string          // IDs of commands whose NodeClaims' deletion was requested
	Undone   []Undone          // commands whose nodes stay
	Again    bool              // an object changed meanwhile: decide again at once
	Refused  []Refusal         // what was not done because the cluster has changed: a new plan is needed
	Errors   []error           // API errors: the next plan tries again
}

// Refusal is a part of a plan that is no longer valid.
type Refusal struct {
	Object string // NodePool, NodeClaim or command
	Why    string
}

// Undone is a command that was begun and whose nodes stay.
type Undone struct {
	Command string // its ID
	Method  model.Method
	Why     string // a word or two, such as timeout
	Message string // a sentence
}

// Add adds the result of another part of the plan.
func (r *Result) Add(other Result) {
	r.Created, r.Existing = append(r.Created, other.Created...), append(r.Existing, other.Existing...)
	r.Removed, r.Refused = append(r.Removed, other.Removed...), append(r.Refused, other.Refused...)
	r.Begun, r.Finished = append(r.Begun, other.Begun...), append(r.Finished, other.Finished...)
	r.Undone, r.Errors = append(r.Undone, other.Undone...), append(r.Errors, other.Errors...)
	r.Again = r.Again || other.Again
	if r.Claims == nil {
		r.Claims = map[string]string{}
	}
	maps.Copy(r.Claims, other.Claims)
}

// How long a command waits for its replacements: longer while many commands are in progress, since the cloud then
// gets many requests at once (sigs.k8s.io/karpenter v1.14.1, pkg/controllers/disruption/queue.go).
const (
	MinReplacementTimeout = 10 * time.Minute
	maxReplacementTimeout = time.Hour
	timeoutPerCommand     = 80 * time.Millisecond
)

// ReplacementTimeout returns how long commands wait for their replacements while that many are in progress.
func ReplacementTimeout(commands int) time.Duration {
	return min(max(time.Duration(commands)*timeoutPerCommand, MinReplacementTimeout), maxReplacementTimeout)
}
