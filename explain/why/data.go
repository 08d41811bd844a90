package why

import (
	"time"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/engine/suggest"
	"github.com/nodeless/nodeless/explain/record"
)

// Reason is why a pod gets no node: the rule, its object, and the verdict of each pool.
type Reason struct {
	Rule   model.Rule    `json:"rule"`
	Object string        `json:"object,omitempty"`
	Detail string        `json:"detail,omitempty"`
	Pools  []PoolVerdict `json:"pools,omitempty"`
}

// PoolVerdict is the rule that excluded the last of a pool's types, and how many types each earlier rule left.
type PoolVerdict struct {
	Pool   string     `json:"pool"`
	Rule   model.Rule `json:"rule"`
	Object string     `json:"object,omitempty"`
	Detail string     `json:"detail,omitempty"` // what was required
	Best   string     `json:"best,omitempty"`   // the nearest value, and the type that has it
	BestOf string     `json:"bestOf,omitempty"`
	Funnel []Step     `json:"funnel,omitempty"`
	Text   string     `json:"text"`
}

// Step is how many types a rule left.
type Step struct {
	Rule model.Rule `json:"rule"`
	Left int        `json:"left"`
}

// Change is a single change that would give a pod a node.
type Change struct {
	Rule   model.Rule `json:"rule"`
	Object string     `json:"object"` // what to edit
	Pool   string     `json:"pool,omitempty"`
	From   string     `json:"from,omitempty"`
	To     string     `json:"to,omitempty"` // "" = remove it
	Text   string     `json:"text"`
	// Patch makes the change, and Command is a shell command that does. Both are empty if the change is not an edit of
	// one object: something has to be created or awaited, or only a person knows which of several things to give up.
	Patch   *Patch `json:"patch,omitempty"`
	Command string `json:"command,omitempty"`
	// Launch is a node that is, or would be, launched.
	Launch *record.Offer `json:"launch,omitempty"`
	Arch   string        `json:"arch,omitempty"`
}

// Launch is a node that is, or would be, launched.
type Launch struct {
	Pool         string         `json:"pool"`
	Pods         []string       `json:"pods,omitempty"`
	Chosen       record.Offer   `json:"chosen"`
	Alternatives []record.Offer `json:"alternatives,omitempty"` // the best of other types, cheapest first
}

// Blocker is a reason to keep a node.
type Blocker struct {
	Rule   model.Rule `json:"rule"`
	Text   string     `json:"text"`
	Group  []string   `json:"group,omitempty"`  // the nodes that would be replaced together without it, by name
	Clears string     `json:"clears,omitempty"` // when or how it clears
	At     *time.Time `json:"clearsAt,omitempty"`
}

func reasonOf(r *model.Reason) *Reason {
	out := &Reason{Rule: r.Rule, Object: r.Object, Detail: r.Detail}
	for _, v := range r.Pools {
		pv := PoolVerdict{
			Pool: v.Pool, Rule: v.Rule, Object: v.Object, Detail: v.Detail, Best: v.Best, BestOf: v.BestOf,
			Text: reason.Verdict(v),
		}
		for _, f := range v.Funnel {
			pv.Funnel = append(pv.Funnel, Step{f.Rule, f.Left})
		}
		out.Pools = append(out.Pools, pv)
	}
	return out
}

func changeOf(o *suggest.Option, p *Patch) *Change {
	c := &o.Change
	out := &Change{
		Rule: c.Rule, Object: c.Object, Pool: c.Pool, From: c.From, To: c.To, Arch: c.Arch,
		Text: reason.Change(*c), Patch: p,
	}
	if p != nil {
		out.Command = p.Command()
	}
	if o.Node.Type != "" {
		offer := record.OfferOf(o.Node)
		out.Launch = &offer
	}
	return out
}

// textWithNode returns the text of the change, with the node that it would launch.
func (c *Change) textWithNode(node model.Candidate) string {
	text := c.Text
	if node.Type != "" {
		text += "; launches " + reason.Candidate(node)
	}
	return text
}
