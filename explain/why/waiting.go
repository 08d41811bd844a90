package why

import (
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/query"
)

// Matrix holds each NodePool's answer to each shape of pending pods.
type Matrix struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Pools      []string   `json:"pools"`
	Shapes     []ShapeRow `json:"shapes"`
	Prices     string     `json:"prices"`
	Gaps       []string   `json:"notKnown,omitempty"`
}

// ShapeRow is a group of pods with equal requirements.
type ShapeRow struct {
	Requests  string     `json:"requests"`
	Such      Subject    `json:"suchAs"`
	Pods      int        `json:"pods"`
	Room      int        `json:"room"`      // pods that fit on a node that exists or is being launched
	Launching int        `json:"launching"` // pods for which a node is launched
	Nothing   int        `json:"nothing"`
	Why       string     `json:"why,omitempty"`    // why some get nothing
	Change    string     `json:"change,omitempty"` // the smallest change that would help one of them
	Pools     []PoolCell `json:"pools"`            // in the order of Matrix.Pools
}

// PoolCell is a pool's verdict on a shape.
type PoolCell struct {
	Launching int        `json:"launching,omitempty"` // pods that get a node from it now
	Could     bool       `json:"could,omitempty"`     // more of them could get a node from it
	Rule      model.Rule `json:"rule,omitempty"`      // the rule that prevents it
	Text      string     `json:"text,omitempty"`
	Funnel    []Step     `json:"funnel,omitempty"`
}

// AllWaiting returns what happens to every pending pod.
func AllWaiting(c *capture.Cluster, policy model.Policy) *Matrix {
	s := c.Snapshot()
	q := newQuestion(c, s, policy, Subject{})
	m := &Matrix{
		APIVersion: "nodeless.sh/v1alpha1", Kind: "WaitingPods", Pools: []string{}, Shapes: []ShapeRow{},
		Prices: c.Prices(),
	}
	for i := range s.Pools {
		m.Pools = append(m.Pools, s.Pools[i].Name)
	}
	for _, w := range query.All(s, policy) {
		m.Shapes = append(m.Shapes, q.shapeRow(&w))
	}
	for _, gap := range c.Gaps() {
		m.Gaps = append(m.Gaps, gap.Error())
	}
	return m
}

func (q *question) shapeRow(w *query.Waiting) ShapeRow {
	row := ShapeRow{
		Requests: q.amounts(w.Shape.Requests), Such: Subject{Kind: PodKind, Namespace: w.Such.Namespace, Name: w.Such.Name},
		Pods: w.Pods, Room: w.Room, Launching: w.Launching, Nothing: w.Nothing, Pools: []PoolCell{},
	}
	if len(w.Shape.Required) > 0 {
		row.Requests += "; " + w.Shape.Required.String()
	}
	if w.Reason != nil {
		because := *w.Reason
		because.Change = model.Change{}
		row.Why, row.Change = reason.Pod(because), reason.Change(w.Reason.Change)
	}
	for _, p := range w.Pools {
		cell := PoolCell{Launching: p.Launching, Could: p.Could}
		if !p.Could {
			cell.Rule, cell.Text = p.Verdict.Rule, reason.Verdict(p.Verdict)
			for _, step := range p.Verdict.Funnel {
				cell.Funnel = append(cell.Funnel, Step{step.Rule, step.Left})
			}
		}
		row.Pools = append(row.Pools, cell)
	}
	return row
}
