package translate

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// Annotations on the NodeClaims that apply creates, so that the next process knows as much as this one.
const (
	// AnnotationLaunch is the ID of the plan's launch from which the claim was created.
	AnnotationLaunch = "nodeless.sh/launch"
	// AnnotationReserves names the owners of the placeholders that the claim was launched for, if it was for no other
	// pods: namespace/name of Jobs yet to be created and of CapacityBuffers, separated by commas.
	AnnotationReserves = "nodeless.sh/reserves"
	// AnnotationExpected is the Expected node, as JSON.
	AnnotationExpected = "nodeless.sh/expected"
	// AnnotationDisruption is the disruption method that removes the node, such as "Empty".
	AnnotationDisruption = "nodeless.sh/disruption"
)

// Expected is what a node is expected to be before its instance exists.
type Expected struct {
	Candidate   model.Candidate
	Capacity    model.Resources // maximum over the candidate types: counts against limits
	Allocatable model.Resources // of the chosen type: pods may rely on it
	Price       model.Price
}

// expectedJSON is Expected as written on the claim.
type expectedJSON struct {
	Type         string              `json:"type"`
	Zone         string              `json:"zone"`
	CapacityType string              `json:"capacityType"`
	Price        int64               `json:"microDollarsPerHour"`
	Capacity     corev1.ResourceList `json:"capacity,omitempty"`
	Allocatable  corev1.ResourceList `json:"allocatable,omitempty"`
}

func (n *Names) writeExpected(e Expected) string {
	text, err := json.Marshal(expectedJSON{
		Type: e.Candidate.Type, Zone: e.Candidate.Zone, CapacityType: e.Candidate.CapacityType,
		Price:    int64(e.Candidate.Price),
		Capacity: n.resourceList(e.Capacity), Allocatable: n.resourceList(e.Allocatable),
	})
	if err != nil {
		return "{}" // strings, integers and quantities always marshal
	}
	return string(text)
}

// expected returns what is known about a claim's node, from the best source: the launch's result, the annotation, or
// the claim's requests.
func (n *Names) expected(claim *karpv1.NodeClaim) Expected {
	var e Expected
	var was expectedJSON
	if text := claim.Annotations[AnnotationExpected]; text != "" && json.Unmarshal([]byte(text), &was) == nil {
		e.Candidate = model.Candidate{
			OfferingKey: model.OfferingKey{Type: was.Type, Zone: was.Zone, CapacityType: was.CapacityType},
			Price:       model.Price(was.Price),
		}
		e.Price = e.Candidate.Price
	}
	requests, _ := n.Resources(claim.Spec.Resources.Requests)
	pick := func(reported, expected corev1.ResourceList) model.Resources {
		if len(reported) > 0 {
			r, _ := n.Resources(reported)
			return r
		}
		if len(expected) > 0 {
			r, _ := n.Resources(expected)
			return r
		}
		return requests
	}
	e.Capacity = pick(claim.Status.Capacity, was.Capacity)
	e.Allocatable = pick(claim.Status.Allocatable, was.Allocatable)
	return e
}
