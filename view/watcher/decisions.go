package watcher

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/explain/record"
	logs "github.com/nodeless/nodeless/explain/record/store"
)

// decided is a piece of the log of decisions, still encoded; the model keeps it decoded.
type decided struct {
	name  string
	place int64
	data  []byte
}

// decisions adds the log of decisions to what is watched. Without it everything else is shown, and the model says
// why.
func (f *Feed) decisions(ctx context.Context) error {
	s := source{
		group: v1alpha1.GroupVersion.Group, resource: "decisionlogs", object: &v1alpha1.DecisionLog{},
		keep: keep[*v1alpha1.DecisionLog](decidedOf), seen: f.decidedSeen,
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	there, err := f.serves(ctx, v1alpha1.GroupVersion, s.resource)
	if err != nil {
		return err
	}
	if !there {
		f.o.Model.NoDecisions(logs.ErrNotKept.Error())
		return nil
	}
	for _, verb := range []string{"list", "watch"} {
		ok, err := f.may(ctx, verb, s)
		if err != nil {
			return err
		}
		if !ok {
			f.o.Model.NoDecisions(logs.ErrNotAllowed.Error())
			return nil
		}
	}
	if s.client, err = decisionClient(f.o.REST); err != nil {
		return fmt.Errorf("context %q: %w", f.o.Context, err)
	}
	f.sources = append(f.sources, s)
	return nil
}

func decisionClient(of *rest.Config) (rest.Interface, error) {
	known := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(known); err != nil {
		return nil, err
	}
	cfg, group := rest.CopyConfig(of), v1alpha1.GroupVersion
	cfg.GroupVersion, cfg.APIPath, cfg.NegotiatedSerializer = &group, "/apis",
		serializer.NewCodecFactory(known).WithoutConversion()
	return rest.RESTClientFor(cfg)
}

func decidedOf(o *v1alpha1.DecisionLog) *decided { return &decided{o.Name, o.Piece, o.Data} }

func (f *Feed) decidedSeen(old, now any) {
	if d, ok := now.(*decided); ok {
		entries, err := record.Decode(d.data)
		source := "decisions " + d.name
		if f.o.Model.Note(source, ""); err != nil {
			f.o.Model.Note(source, fmt.Sprintf("DecisionLog %s: %v: not shown is what cannot be read", d.name, err))
		}
		f.o.Model.SetPiece(d.name, d.place, entries)
	} else if d, ok := old.(*decided); ok {
		f.o.Model.SetPiece(d.name, d.place, nil)
	}
}
