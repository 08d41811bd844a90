package web

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	kept "github.com/nodeless/nodeless/explain/record"
)

// usualDecisions and mostDecisions are the default and the maximum number of decisions listed.
const (
	usualDecisions = 100
	mostDecisions  = 1000
)

// decisionList lists the newest decisions that contain all words, newest first.
type decisionList struct {
	Of      int        `json:"of"` // number of matches
	Kept    int        `json:"kept"`
	Items   []decision `json:"items"`
	Damaged []string   `json:"damaged,omitempty"`
}

type decision struct {
	kept.Record `json:",inline"`
	Became      string `json:"became,omitempty"`
	Count       int    `json:"count"` // number of pods
}

// list returns the newest decisions that contain all words in their text or in the names of their pods and nodes.
func (s *Server) list(ctx context.Context, words string, most int) (*decisionList, error) {
	if s.noDecisions != nil {
		return nil, s.noDecisions
	}
	all, damaged, err := s.decided.all(s.lifetime(), ctx)
	if err != nil {
		return nil, err
	}
	out := &decisionList{Kept: len(all), Items: []decision{}}
	for _, err := range damaged {
		out.Damaged = append(out.Damaged, err.Error())
	}
	wanted := strings.Fields(strings.ToLower(words))
	for _, r := range slices.Backward(all) {
		if !found(&r, wanted) {
			continue
		}
		if out.Of++; len(out.Items) < most {
			d := decision{Record: r, Became: r.Result(), Count: len(r.Pods) + r.PodsMore}
			for _, m := range r.Removed {
				d.Count += len(m.Pods) + m.PodsMore
			}
			out.Items = append(out.Items, d)
		}
	}
	return out, nil
}

func found(r *kept.Record, words []string) bool {
	if len(words) == 0 {
		return true
	}
	parts := append([]string{string(r.Kind), r.Method, r.Rule, r.Line()}, r.Pods...)
	for _, m := range r.Removed {
		parts = append(append(parts, m.Node, m.Claim, m.Pool, m.Type), m.Pods...)
	}
	for _, b := range r.Launched {
		parts = append(parts, b.Claim, b.Pool, b.Chosen.Type)
	}
	hay := strings.ToLower(strings.Join(parts, "\n"))
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(hay, w) })
}

func (s *Server) decisions(r *http.Request) (any, error) {
	most := usualDecisions
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := number(r, "limit")
		if err != nil || n < 1 || n > mostDecisions {
			return nil, failure{
				http.StatusBadRequest,
				errors.New("parameter limit=" + strconv.Quote(text) + ": give a whole number from 1 to 1000"),
			}
		}
		most = int(n)
	}
	list, err := s.list(r.Context(), r.URL.Query().Get("q"), most)
	if err != nil {
		return nil, err
	}
	return escaped(list)
}

// mostDays is the maximum number of days with a sum of their own: each sum adds up all records again.
const mostDays = 7

// ledger returns the savings until now, newest decisions first, and by day.
func (s *Server) ledger(ctx context.Context) (*kept.Ledger, []kept.Day, error) {
	if s.noDecisions != nil {
		return nil, nil, s.noDecisions
	}
	all, _, err := s.decided.all(s.lifetime(), ctx)
	if err != nil {
		return nil, nil, err
	}
	now := s.o.Clock.Now().UTC()
	l := kept.Savings(all, now, kept.DefaultHorizon)
	slices.Reverse(l.Savings)
	return &l, kept.SavedByDay(all, now, kept.DefaultHorizon, mostDays), nil
}

// mostSums is the maximum number of pools, namespaces or workloads with a sum of their own in an answer.
const mostSums = 1000

// sums are what pools, namespaces or workloads saved, largest first.
type sums struct {
	Of   int        `json:"of"` // number before the list was cut
	Sums []kept.Sum `json:"sums"`
}

func (s *Server) savings(r *http.Request) (any, error) {
	l, days, err := s.ledger(r.Context())
	if err != nil {
		return nil, err
	}
	methods, by := map[string]float64{}, map[string]sums{}
	for i := range l.Savings {
		methods[l.Savings[i].Method] += l.Savings[i].Dollars
	}
	for _, name := range kept.Groupings {
		all := kept.SavedBy(l.Savings, name)
		by[name] = sums{len(all), all[:min(len(all), mostSums)]}
	}
	of := len(l.Savings)
	l.Savings = l.Savings[:min(of, usualDecisions)]
	return escaped(map[string]any{
		"ledger": l, "of": of, "methods": methods, "by": by, "division": kept.Division, "days": days,
	})
}
