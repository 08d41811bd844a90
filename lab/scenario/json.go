package scenario

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/nodeless/nodeless/engine/model"
)

// Case is a decision with all of its inputs.
type Case struct {
	Snapshot *model.Snapshot
	Policy   model.Policy
	Plan     model.Plan
	Notes    []string `json:",omitempty"` // such as the promises that the plan broke
}

// ReadJSON reads a case. It fails on unknown fields, on a case without a snapshot, and on pods whose shape does not
// exist.
func ReadJSON(r io.Reader) (Case, error) {
	var c Case
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return Case{}, fmt.Errorf("read case: %w", err)
	}
	if c.Snapshot == nil {
		return Case{}, fmt.Errorf("read case: field Snapshot is missing")
	}
	shapes := len(c.Snapshot.Shapes)
	for field, pods := range map[string][]model.Pod{ // order does not matter: any one fault may be reported
		"Pending": c.Snapshot.Pending, "Expected": c.Snapshot.Expected,
	} {
		for i, p := range pods {
			if p.Shape < 0 || p.Shape >= shapes {
				return Case{}, fmt.Errorf("read case: field Snapshot.%s[%d].Shape: %d is not an index of the %d shapes",
					field, i, p.Shape, shapes)
			}
		}
	}
	for i, n := range c.Snapshot.Nodes {
		for j, p := range n.Pods {
			if p.Shape >= shapes {
				return Case{},
					fmt.Errorf("read case: field Snapshot.Nodes[%d].Pods[%d].Shape: %d is not an index of the %d shapes", i, j,
						p.Shape, shapes)
			}
		}
	}
	return c, nil
}
