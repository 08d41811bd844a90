package web

import (
	"net/http"

	"github.com/nodeless/nodeless/view"
)

// rolloutItem is when a workload began to create pods from a new template.
type rolloutItem struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Time      int64  `json:"time"` // milliseconds since 1970
}

// mostRollouts is the maximum number of rollouts in an answer, which has the newest.
const mostRollouts = 1000

// rollouts answers with the rollouts that began between two moments, in milliseconds since 1970.
type rollouts struct{ model *view.Model }

func (a rollouts) answer(r *http.Request) (any, error) {
	in, err := span(r)
	if err != nil {
		return nil, err
	}
	began := a.model.Rollouts(in)
	began = began[max(0, len(began)-mostRollouts):]
	out := make([]rolloutItem, len(began))
	for i, b := range began {
		w := b.Workload
		out[i] = rolloutItem{w.Kind, view.Escape(w.Namespace), view.Escape(w.Name), b.At.UnixMilli()}
	}
	return out, nil
}
