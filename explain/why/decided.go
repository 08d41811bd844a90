package why

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/record"
	"github.com/nodeless/nodeless/explain/record/store"
)

// maxDecisions is how many decisions about an existing object are shown.
const maxDecisions = 5

// history holds the decisions about an object, by time, and the whole log.
type history struct {
	all, about []record.Record
	damaged    []error // parts of the log that cannot be read
}

// archive reads the decisions and events that the cluster keeps about objects, even after their deletion.
type archive struct {
	c      *capture.Cluster
	cached *known
}

type known struct {
	history
	err error
}

// decisions returns the decisions about the question's subject. It reads them once. Clusters that record no decisions
// have none.
func (a *archive) decisions(ctx context.Context, of Subject) (history, error) {
	if a.cached == nil {
		h, err := a.read(ctx, of)
		a.cached = &known{h, err}
	}
	return a.cached.history, a.cached.err
}

func (a *archive) read(ctx context.Context, of Subject) (history, error) {
	cfg := a.c.REST()
	if cfg == nil {
		return history{}, nil
	}
	r, err := store.NewReader(cfg)
	if err != nil {
		return history{}, err
	}
	reading, err := r.Read(ctx)
	if errors.Is(err, store.ErrNotKept) {
		return history{}, nil
	}
	if err != nil {
		return history{}, err
	}
	h := history{all: reading.Records, damaged: reading.Damaged}
	name := of.Name
	if of.Kind == PodKind {
		name = of.Namespace + "/" + of.Name
	}
	switch of.Kind {
	case NodeKind:
		h.about = ofNode(h.all, name, a.claimOf(name))
	case PodKind:
		h.about = a.ofThisPod(of, record.Of(h.all, of.Kind, name))
	default:
		h.about = record.Of(h.all, of.Kind, name)
	}
	return h, nil
}

// claimOf returns the NodeClaim of an existing Node, "" if there is none or it is not known.
func (a *archive) claimOf(node string) string {
	nodes := a.c.Snapshot().Nodes
	if i := slices.IndexFunc(nodes, func(n model.Node) bool { return n.Name == node }); i >= 0 {
		return nodes[i].Claim
	}
	return ""
}

// ofNode returns the records about the Node of a NodeClaim: an earlier Node may have had the same name, which EC2 makes
// of an address. Without a NodeClaim it returns the records about every Node of that name, and those about their
// launches, which were decided before they had a name.
func ofNode(all []record.Record, node, claim string) []record.Record {
	if claim != "" {
		return record.Of(all, ClaimKind, claim)
	}
	about := record.Of(all, NodeKind, node)
	for _, claim := range claimsOf(about, node) {
		for _, r := range record.Of(all, ClaimKind, claim) {
			if !slices.ContainsFunc(about, func(x record.Record) bool { return x.ID == r.ID }) {
				about = append(about, r)
			}
		}
	}
	slices.SortStableFunc(about, func(a, b record.Record) int { return a.Time.Compare(b.Time) })
	return about
}

// ofThisPod selects the records about the existing pod or, if there is none, about the last one of that name.
func (a *archive) ofThisPod(of Subject, records []record.Record) []record.Record {
	name := of.Namespace + "/" + of.Name
	if pod := a.c.State.Pod(types.NamespacedName{Namespace: of.Namespace, Name: of.Name}); pod != nil {
		return slices.DeleteFunc(records, func(r record.Record) bool {
			return !r.AboutPod(name, string(pod.UID), pod.CreationTimestamp.Time)
		})
	}
	if len(records) == 0 {
		return nil
	}
	last, _ := records[len(records)-1].PodUID(name)
	return slices.DeleteFunc(records, func(r record.Record) bool {
		uid, _ := r.PodUID(name)
		return uid != last
	})
}

// claimsOf returns the NodeClaims of a Node.
func claimsOf(about []record.Record, node string) []string {
	var out []string
	for i := range about {
		for _, m := range about[i].Removed {
			if m.Node == node {
				out = append(out, m.Claim)
			}
		}
		for _, o := range about[i].Outcomes {
			if o.Node == node && o.Claim != "" {
				out = append(out, o.Claim)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// history returns the decisions about the subject; the first call reports what cannot be read.
func (q *question) history(ctx context.Context, of Subject) (history, error) {
	first := q.past.cached == nil
	h, err := q.past.decisions(ctx, of)
	if first {
		for _, damage := range h.damaged {
			q.sayf("unknown", "part of the decisions: %v", damage)
		}
	}
	return h, err
}

// decided adds recent decisions about an existing object.
func (q *question) decided(ctx context.Context, of Subject) {
	h, err := q.history(ctx, of)
	if err != nil {
		q.sayf("decided", "not read: %v", err)
		return
	}
	q.a.Decisions = h.about[max(0, len(h.about)-maxDecisions):]
	for i := range q.a.Decisions {
		r := &q.a.Decisions[i]
		q.sayf("decided", "%s ago: %s", q.ago(r.Time), r.Line())
	}
}

// took formats seconds.
func took(seconds float64) string {
	return duration.HumanDuration(time.Duration(seconds * float64(time.Second)))
}
