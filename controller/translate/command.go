package translate

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// Annotations from which any process finds a command in progress.
const (
	// AnnotationCommand is the Command that removes a NodeClaim, as JSON, on each victim.
	AnnotationCommand = "nodeless.sh/command"
	// AnnotationReplaces is the ID of the command that the NodeClaim was created for.
	AnnotationReplaces = "nodeless.sh/replaces"
	// AnnotationReplacing is the whole Command of that ID, from which a process continues if it finds no marked victim.
	AnnotationReplacing = "nodeless.sh/replacing"
)

// Command is a model.Command in progress, as written on NodeClaims.
type Command struct {
	ID      string       `json:"id"`
	Method  model.Method `json:"method"`
	Victims []Victim     `json:"victims"` // the NodeClaims to be removed
	// Replacements are the NodeClaims that must be initialized first, Launches is their number. The copy that is
	// written on a replacement lacks their names.
	Replacements []string  `json:"replacements,omitempty"`
	Launches     int       `json:"launches"`
	Since        time.Time `json:"since"`
}

// Victim is a NodeClaim to be removed. Another NodeClaim may get its name later.
type Victim struct {
	Claim string    `json:"nodeClaim"`
	UID   types.UID `json:"uid"`
}

// Text returns the command as written in an annotation.
func (c Command) Text() string {
	text, err := json.Marshal(c)
	if err != nil {
		return "" // strings, integers and times of this age always marshal
	}
	return string(text)
}

// CommandOf returns the command that removes a claim, and whether there is one. The error says what in the annotation
// cannot be read.
func CommandOf(claim *karpv1.NodeClaim) (Command, bool, error) {
	return readCommand(claim, AnnotationCommand)
}

// ReplacingOf returns the command that a claim was created for, and whether there is one.
func ReplacingOf(claim *karpv1.NodeClaim) (Command, bool, error) {
	if claim.Annotations[AnnotationReplaces] == "" {
		return Command{}, false, nil
	}
	c, ok, err := readCommand(claim, AnnotationReplacing)
	if err == nil && c.ID != claim.Annotations[AnnotationReplaces] {
		err = fmt.Errorf("NodeClaim %s: annotations %s and %s name different commands", claim.Name, AnnotationReplaces,
			AnnotationReplacing)
	}
	return c, ok || err != nil, err
}

func readCommand(claim *karpv1.NodeClaim, key string) (Command, bool, error) {
	text, ok := claim.Annotations[key]
	if !ok {
		return Command{}, false, nil
	}
	var c Command
	err := json.Unmarshal([]byte(text), &c)
	if err == nil && (c.ID == "" || c.Method == "" || len(c.Victims) == 0 || c.Since.IsZero() || c.Launches < 0) {
		err = errors.New("id, method, victims or since is missing")
	}
	if err != nil {
		return Command{}, true, fmt.Errorf("NodeClaim %s: annotation %s: %w", claim.Name, key, err)
	}
	return c, true, nil
}

// Terminating reports whether the termination of a claim's instance was requested.
func Terminating(claim *karpv1.NodeClaim) bool {
	return conditions.IsTrue(claim, karpv1.ConditionTypeInstanceTerminating)
}

// HasDeadline reports whether a claim's node is removed by a deadline even if its pods do not allow it.
func HasDeadline(claim *karpv1.NodeClaim) bool {
	return claim != nil && (claim.Spec.TerminationGracePeriod != nil ||
		claim.Annotations[karpv1.NodeClaimTerminationTimestampAnnotationKey] != "")
}
