package admission

import (
	"context"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

// confirmed is the annotation with the generation of a configuration that was written a second time.
const confirmed = "nodeless.sh/said-again"

// ConfirmAfter is how long after writing a configuration Put confirms it.
const ConfirmAfter = 2 * time.Second

// Registrar writes webhook configurations. It is not safe for concurrent use.
type Registrar struct {
	Client client.Client // required; reads from the API server itself
	Clock  clock.Clock   // required
	wrote  time.Time     // when a configuration was last changed
}

// Put creates want, or reads the existing object into have and updates it. take copies the wanted content into have
// and reports whether it was there already. Put reports whether API servers are certain to use the configuration; if
// not, call it again after ConfirmAfter.
//
// An API server caches what it compiles from a configuration until it observes a new version. If that arrives during
// the compilation, the old result stays in the cache (k8s.io/apiserver v0.36.2, pkg/admission/configuration: the
// result is stored into configurationsCache after the update has deleted from it). So every configuration is
// confirmed: written once more, with an annotation, a moment later.
func (r *Registrar) Put(ctx context.Context, want, have client.Object, take func() bool) (bool, error) {
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(want), have)
	switch {
	case apierrors.IsNotFound(err):
		err = r.Client.Create(ctx, want)
	case err != nil:
	case !take():
		err = r.Client.Update(ctx, have)
	default:
		generation, annotations := strconv.FormatInt(have.GetGeneration(), 10), have.GetAnnotations()
		if done := annotations[confirmed] == generation; done || r.Clock.Now().Sub(r.wrote) < ConfirmAfter {
			return done, nil
		}
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[confirmed] = generation
		have.SetAnnotations(annotations)
		if err = r.Client.Update(ctx, have); err == nil {
			return true, nil
		}
	}
	r.wrote = r.Clock.Now()
	if err != nil {
		return false, fmt.Errorf("webhook configuration %s: %w", want.GetName(), err)
	}
	return false, nil
}
