package web

import (
	"net/http"
	"time"

	"github.com/nodeless/nodeless/view"
)

// poolItem is a NodePool as the page receives it. Times are seconds since 1970, prices millionths of a dollar an
// hour, amounts in the order of the resources. An item without a name stands for the nodes without a NodePool.
type poolItem struct {
	Name        string          `json:"name"`
	Weight      int             `json:"weight"`
	Nodes       int             `json:"nodes"`
	Price       int64           `json:"price"`
	Unpriced    int             `json:"unpriced,omitempty"` // of its nodes, those of unknown price
	Requests    []int64         `json:"requests"`
	Allocatable []int64         `json:"allocatable"`
	Limits      []limitItem     `json:"limits"`
	Budgets     []budgetItem    `json:"budgets"`
	Zone        string          `json:"zone,omitempty"`
	Window      *windowItem     `json:"windows,omitempty"`
	Allowed     map[string]int  `json:"allowed"`
	Conditions  []conditionItem `json:"conditions"`
}

type limitItem struct {
	Resource string  `json:"resource"`
	Used     string  `json:"used"`
	Limit    string  `json:"limit"`
	Share    float64 `json:"share"`
}

type budgetItem struct {
	Nodes    string   `json:"nodes"`
	Reasons  []string `json:"reasons,omitempty"`
	Schedule string   `json:"schedule,omitempty"`
	Seconds  float64  `json:"seconds,omitempty"`
	Active   bool     `json:"active"`
	Turns    int64    `json:"turns,omitempty"`
	// Spans are the times in the coming days at which its schedule puts it in force, as pairs.
	Spans [][2]int64 `json:"spans,omitempty"`
}

type windowItem struct {
	Text    string     `json:"text"`
	Open    bool       `json:"open"`
	Turns   int64      `json:"turns,omitempty"`
	Reasons []string   `json:"reasons"`
	Spans   [][2]int64 `json:"spans,omitempty"`
}

type conditionItem struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Since   int64  `json:"since"`
}

// pools answers with the NodePools and which of their budgets are in force now.
func (s *Server) pools(*http.Request) (any, error) {
	now := s.o.Clock.Now()
	rows := s.o.Model.Pools(now, view.Query{}).Rows
	out := make([]poolItem, len(rows))
	for i := range rows {
		out[i] = newPoolItem(&rows[i], len(s.o.Model.Resources()), now)
	}
	return out, nil
}

func newPoolItem(r *view.PoolRow, resources int, now time.Time) poolItem {
	out := poolItem{
		Name: view.Escape(r.Name), Weight: r.Weight, Nodes: r.Rows, Price: r.Price, Unpriced: r.Unpriced,
		Requests: r.Requests[:resources], Allocatable: r.Sums.Allocatable[:resources],
		Limits: []limitItem{}, Budgets: []budgetItem{}, Allowed: map[string]int{}, Conditions: []conditionItem{},
	}
	for _, l := range r.Limits {
		out.Limits = append(out.Limits, limitItem{view.Escape(l.Resource), l.Used, l.Most, l.UsedShare})
	}
	for i, reason := range view.Reasons {
		out.Allowed[reason] = r.Allowed[i]
	}
	for _, c := range r.Conditions {
		out.Conditions = append(out.Conditions, conditionItem{
			view.Escape(c.Type), view.Escape(c.Status), view.Escape(c.Reason), view.Escape(c.Message), unix(c.Since),
		})
	}
	if r.Disruption == nil {
		return out
	}
	d := r.Disruption(now)
	out.Zone = d.Zone
	for _, b := range d.Budgets {
		out.Budgets = append(out.Budgets, budgetItem{
			view.Escape(b.Nodes), b.Reasons, view.Escape(b.Schedule), b.Duration.Seconds(), b.Active, unix(b.Next),
			spans(b.Spans),
		})
	}
	if w := d.Window; w != nil {
		out.Window = &windowItem{view.Escape(w.Schedules), w.Active, unix(w.Next), w.Reasons, spans(w.Spans)}
	}
	return out
}

func spans(of []view.Span) [][2]int64 {
	out := make([][2]int64, len(of))
	for i, s := range of {
		out[i] = [2]int64{unix(s.From), unix(s.To)}
	}
	return out
}

// mostNames is the maximum number of namespaces, and of pods, in an answer.
const mostNames = 20

// nameItems are the namespaces and pods that a text names.
type nameItems struct {
	Namespaces []string   `json:"namespaces"`
	Pods       []nameItem `json:"pods"`
}

type nameItem struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Node      string `json:"node,omitempty"`
}

// names answers with the namespaces and pods that the words of q name.
func (s *Server) names(r *http.Request) (any, error) {
	namespaces, pods := s.o.Model.Names(r.URL.Query().Get("q"), mostNames)
	out := nameItems{Namespaces: []string{}, Pods: []nameItem{}}
	for _, n := range namespaces {
		out.Namespaces = append(out.Namespaces, view.Escape(n))
	}
	for _, p := range pods {
		out.Pods = append(out.Pods, nameItem{view.Escape(p.Namespace), view.Escape(p.Name), view.Escape(p.Node)})
	}
	return out, nil
}
