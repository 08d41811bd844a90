package scenario

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/nodeless/nodeless/engine/model"
)

// Case is a decision with everything that led to it.
type Case struct {
	Snapshot *model.Snapshot
	Policy   model.Policy
	Plan     model.Plan
	Notes    []string `json:",omitempty"` // such as the promises that the plan broke
}

// WriteJSON writes a case as indented JSON.
func WriteJSON(w io.Writer, c Case) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	if err := e.Encode(c); err != nil {
		return fmt.Errorf("write case: %w", err)
	}
	return nil
}

// ReadJSON reads a case. It fails on unknown fields, on a case without a snapshot, and on pods of a shape that does
// not exist.
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
	for i, p := range c.Snapshot.Pending {
		if p.Shape < 0 || p.Shape >= len(c.Snapshot.Shapes) {
			return Case{}, fmt.Errorf("read case: field Snapshot.Pending[%d].Shape: %d is not an index of the %d shapes", i,
				p.Shape, len(c.Snapshot.Shapes))
		}
	}
	for i, p := range c.Snapshot.Expected {
		if p.Shape < 0 || p.Shape >= len(c.Snapshot.Shapes) {
			return Case{}, fmt.Errorf("read case: field Snapshot.Expected[%d].Shape: %d is not an index of the %d shapes", i,
				p.Shape, len(c.Snapshot.Shapes))
		}
	}
	for i, n := range c.Snapshot.Nodes {
		for j, p := range n.Pods {
			if p.Shape >= len(c.Snapshot.Shapes) {
				return Case{},
					fmt.Errorf("read case: field Snapshot.Nodes[%d].Pods[%d].Shape: %d is not an index of the %d shapes", i, j,
						p.Shape, len(c.Snapshot.Shapes))
			}
		}
	}
	return c, nil
}
