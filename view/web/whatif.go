package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"time"
)

// WhatIf is a question: what would become of the cluster with these changes? Its fields are as in nodeless plan.
type WhatIf struct {
	Manifests string   `json:"manifests"` // YAML or JSON, documents one after the other
	Deletes   []string `json:"deletes"`   // such as nodepool/old
	Scales    []string `json:"scales"`    // such as deployment/shop/web=50
	Namespace string   `json:"namespace"` // of objects that name none
}

// Bounds of a question.
const (
	mostQuestion = 1 << 20 // bytes
	mostNamed    = 100     // objects in Deletes and Scales
	mostThought  = 2 * time.Minute
)

var (
	errNoForecast = failure{
		http.StatusNotImplemented,
		errors.New("this page was started without forecasts: this build has none; the whole program has, and: nodeless plan"),
	}
	errBusy = failure{
		http.StatusTooManyRequests,
		errors.New("another forecast is being made; try again when it is done"),
	}
	errNothing = failure{
		http.StatusBadRequest,
		errors.New("nothing is to be changed: paste a manifest, or name objects to delete or scale"),
	}
)

// readWhatIf reads a question.
func readWhatIf(w http.ResponseWriter, r *http.Request) (q WhatIf, err error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return q, failure{http.StatusUnsupportedMediaType, errors.New("send the question as application/json")}
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostQuestion))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return q, failure{
				http.StatusRequestEntityTooLarge,
				fmt.Errorf("the question is larger than %d KiB: ask about fewer manifests at once, or use nodeless plan",
					mostQuestion>>10),
			}
		}
		return q, failure{http.StatusBadRequest, fmt.Errorf("the question is not understood: %w", err)}
	}
	switch named := len(q.Deletes) + len(q.Scales); {
	case q.Manifests == "" && named == 0:
		return q, errNothing
	case named > mostNamed:
		return q, failure{
			http.StatusBadRequest,
			fmt.Errorf("%d objects are named: name %d at most, or use nodeless plan", named, mostNamed),
		}
	}
	return q, nil
}

// whatIf answers a question, one at a time: each takes a core, and memory for the whole cluster, for a while. It
// writes nothing to the cluster.
func (s *Server) whatIf(w http.ResponseWriter, r *http.Request) (any, error) {
	if s.noEngine != nil {
		return nil, s.noEngine
	}
	life := s.lifetime()
	if s.o.Forecast == nil || life == nil {
		return nil, errNoForecast
	}
	q, err := readWhatIf(w, r)
	if err != nil {
		return nil, err
	}
	select {
	case s.thinking <- struct{}{}:
		defer func() { <-s.thinking }()
	default:
		return nil, errBusy
	}
	ctx, cancel := context.WithTimeout(r.Context(), mostThought)
	defer cancel()
	out, err := s.o.Forecast(ctx, q)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, failure{
			http.StatusGatewayTimeout,
			fmt.Errorf("the forecast was not done within %s: ask about less, or use nodeless plan, which takes its time",
				mostThought),
		}
	case err != nil:
		return nil, failure{http.StatusUnprocessableEntity, err}
	}
	return escaped(out)
}
