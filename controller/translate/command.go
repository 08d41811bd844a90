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

// Annotations by which a command under way is found again by any process.
const (
	// AnnotationCommand is the Command by which a machine is to go, as JSON, on the NodeClaim of each victim.
	AnnotationCommand = "nodeless.sh/command"
	// AnnotationReplaces is the ID of the command that the NodeClaim was created for.
	AnnotationReplaces = "nodeless.sh/replaces"
	// AnnotationReplacing is the whole Command beside that ID: a process that finds no victim marked can go on from it.
	AnnotationReplacing = "nodeless.sh/replacing"
)

// Command is a model.Command under way, as written on NodeClaims.
type Command struct {
	ID      string       `json:"id"`
	Method  model.Method `json:"method"`
	Victims []Victim     `json:"victims"` // the NodeClaims that go
	// Replacements are the NodeClaims that have to be initialized first. They have no names yet where the command is
	// written on one of them; Launches is how many there have to be.
	Replacements []string  `json:"replacements,omitempty"`
	Launches     int       `json:"launches"`
	Since        time.Time `json:"since"`
}

// Victim is a NodeClaim that goes. Another one may have its name later.
type Victim struct {
	Claim string    `json:"nodeClaim"`
	UID   types.UID `json:"uid"`
}

// Text is the command as written in an annotation.
func (c Command) Text() string {
	text, err := json.Marshal(c)
	if err != nil {
		return "" // strings, integers and times of this age always marshal
	}
	return string(text)
}

// CommandOf is the command by which a claim is to go, and whether there is one. The error says what of the annotation
// cannot be read.
func CommandOf(claim *karpv1.NodeClaim) (Command, bool, error) {
	return readCommand(claim, AnnotationCommand)
}

// ReplacingOf is the command that a claim was created for, and whether there is one.
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

// Terminating reports whether the cloud was asked to end the machine of a claim.
func Terminating(claim *karpv1.NodeClaim) bool {
	return conditions.IsTrue(claim, karpv1.ConditionTypeInstanceTerminating)
}

// HasDeadline reports whether the machine of a claim goes by a time whatever its pods say.
func HasDeadline(claim *karpv1.NodeClaim) bool {
	return claim != nil && (claim.Spec.TerminationGracePeriod != nil ||
		claim.Annotations[karpv1.NodeClaimTerminationTimestampAnnotationKey] != "")
}
