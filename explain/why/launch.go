package why

import (
	"fmt"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/explain/record"
)

// maxAlternatives is how many offerings are compared.
const maxAlternatives = 5

// launch says which node is launched, for which pods, and what alternatives would cost.
func (q *podQuestion) launch(l *model.Launch) {
	data := q.launchOf(l)
	q.a.Launch = &data
	q.sayf("launches", "%s from pool %s, for %s that request %s", reason.Candidate(l.Chosen), l.Pool,
		reason.Count(len(l.Pods), "pod"), q.amounts(l.Requests))
	for _, x := range l.Relaxed {
		q.say("although", reason.Relaxed(x))
	}
	q.say("why this type", q.comparison(l))
}

func (q *question) launchOf(l *model.Launch) Launch {
	out := Launch{Pool: l.Pool, Chosen: record.OfferOf(l.Chosen)}
	for _, k := range l.Pods {
		out.Pods = append(out.Pods, k.Namespace+"/"+k.Name)
	}
	for _, c := range model.Alternatives(q.s, l, maxAlternatives) {
		if c.Type != l.Chosen.Type {
			out.Alternatives = append(out.Alternatives, record.OfferOf(c))
		}
	}
	return out
}

// comparison compares the chosen type with the next best.
func (q *podQuestion) comparison(l *model.Launch) string {
	if l.RunnerUp.Type == "" {
		return "no other type fits"
	}
	text := fmt.Sprintf("the cheapest of %s that fit; the runner-up, %s, costs ", reason.Count(len(l.Types), "type"),
		reason.Candidate(l.RunnerUp))
	if more := l.RunnerUp.Price - l.Chosen.Price; more > 0 {
		text += reason.Dollars(more) + " more"
	} else {
		text += "no more, but ranks lower under the policy or by name"
	}
	var next []string
	for _, c := range model.Alternatives(q.s, l, maxAlternatives) {
		if c.Type != l.RunnerUp.Type && c.Type != l.Chosen.Type {
			next = append(next, c.Type+" "+reason.Dollars(c.Price))
		}
	}
	if len(next) > 0 {
		text += "; next " + reason.Some(next, 3)
	}
	return text
}
