package store

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/explain/record"
)

// Reading is the readable part of a log.
type Reading struct {
	Records []record.Record // by time
	Damaged []error         // errors of pieces that could not be read in full
}

// Reader reads logs. It is safe for concurrent use.
type Reader struct {
	client client.WithWatch
	server string
}

// NewReader returns a Reader for a cluster.
func NewReader(cfg *rest.Config) (*Reader, error) {
	s := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(s); err != nil {
		return nil, fmt.Errorf("read decisions: %w", err)
	}
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: s})
	if err != nil {
		return nil, fmt.Errorf("read decisions: cluster %s: %w", cfg.Host, err)
	}
	return &Reader{client: c, server: cfg.Host}, nil
}

// Errors of Read if a cluster keeps no decisions, or does not allow reading them.
var (
	ErrNotKept = errors.New("this cluster records no decisions: it has no CRD decisionlogs.nodeless.sh; install " +
		"it: nodeless crds | kubectl apply --server-side -f -")
	ErrNotAllowed = errors.New("you may not list decisionlogs.nodeless.sh; a cluster administrator can allow it: " +
		"nodeless rbac --view")
)

// Read reads the whole log.
func (r *Reader) Read(ctx context.Context) (*Reading, error) {
	logs, err := list(ctx, r.client)
	if err != nil {
		return nil, r.explain(err)
	}
	out := &Reading{}
	var entries []record.Entry
	for i := range logs {
		more, err := record.Decode(logs[i].Data)
		if err != nil {
			out.Damaged = append(out.Damaged, fmt.Errorf("DecisionLog %s: %w", logs[i].Name, err))
		}
		entries = append(entries, more...)
	}
	out.Records = record.Fold(entries)
	return out, nil
}

// Follow calls news with all entries of each piece, those that exist and those written from now on, until ctx is done
// or the watch ends: API servers end each one after half an hour to an hour.
func (r *Reader) Follow(ctx context.Context, news func([]record.Entry)) error {
	var none v1alpha1.DecisionLogList
	w, err := r.client.Watch(ctx, &none)
	if err != nil {
		return r.explain(err)
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-w.ResultChan():
			if !ok {
				return nil
			}
			if log, isLog := e.Object.(*v1alpha1.DecisionLog); isLog {
				if entries, err := record.Decode(log.Data); err == nil {
					news(entries)
				}
			}
		}
	}
}

func (r *Reader) explain(err error) error {
	switch {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return fmt.Errorf("cluster %s: %w", r.server, ErrNotKept)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("cluster %s: %w", r.server, ErrNotAllowed)
	}
	return fmt.Errorf("cluster %s: %w", r.server, err)
}
