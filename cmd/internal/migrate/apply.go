//go:build !noplane

package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/internal/kit/printable"
	"github.com/nodeless/nodeless/migrate"
)

// fieldManager owns the fields of applied objects.
const fieldManager = client.FieldOwner("nodeless-migrate")

// appliedResources are the resources that --apply applies.
const appliedResources = "nodepools.karpenter.sh,ec2nodeclasses.karpenter.k8s.aws,fargateprofiles.nodeless.sh"

// applied is what applying an object did in the cluster.
type applied struct {
	Object string `json:"object"`
	Action string `json:"action"` // created, changed, unchanged or left
	Why    string `json:"why,omitempty"`
}

func (a *applied) text() string {
	if a.Why == "" {
		return fmt.Sprintf("%s: %s\n", a.Object, a.Action)
	}
	return fmt.Sprintf("%s: %s: %s\n", a.Object, a.Action, a.Why)
}

// applyAll applies what was migrated, by server-side apply: all of it or, if a dry run of one object fails, nothing.
// If the cluster changes or becomes unreachable in between, the error says how many objects were applied; another run
// goes on from there.
func applyAll(ctx context.Context, cfg *rest.Config, r *migrate.Result, warnings io.Writer) ([]applied, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.WarningHandler = rest.NewWarningWriter(warnings, rest.WarningWriterOptions{Deduplicate: true})
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		return nil, err
	}
	var out []applied
	var todo []*unstructured.Unstructured
	var bad []string
	for _, o := range r.Objects {
		u, err := toApply(o)
		switch {
		case err != nil:
			bad = append(bad, err.Error())
		case u == nil:
			out = append(out, applied{o.Title(), "left", "its pods would be restarted: apply it when that suits you"})
		default:
			todo = append(todo, u)
		}
	}
	forbidden := false
	for _, u := range todo {
		_, err := applyOne(ctx, c, u, client.DryRunAll)
		switch {
		case apierrors.IsForbidden(err) && !forbidden:
			forbidden = true
			bad = append(bad, err.Error()+"; "+allowed())
		case err != nil && !apierrors.IsForbidden(err):
			bad = append(bad, err.Error())
		}
	}
	if len(bad) > 0 {
		return nil, fmt.Errorf("nothing was applied: %s", strings.Join(bad, "; "))
	}
	for i, u := range todo {
		action, err := applyOne(ctx, c, u)
		if err != nil {
			return out, fmt.Errorf("%d of %d objects were applied: %w; another run goes on from there", i, len(todo), err)
		}
		out = append(out, applied{Object: u.GetKind() + " " + u.GetName(), Action: action})
	}
	return out, nil
}

// toApply converts an object for applying; nil if it is not to be applied.
func toApply(o *migrate.Object) (*unstructured.Unstructured, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Title(), err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Title(), err)
	}
	switch {
	case o.Workload():
		return nil, nil
	case o.Unfinished():
		return nil, fmt.Errorf("%s lacks what the input does not say: give --node-role, or fill in the manifests and apply "+
			"them with kubectl", o.Title())
	}
	return u, nil
}

// applyOne applies an object, and returns what that did.
func applyOne(ctx context.Context, c client.Client, u *unstructured.Unstructured,
	more ...client.ApplyOption,
) (action string, err error) {
	was := &unstructured.Unstructured{}
	was.SetGroupVersionKind(u.GroupVersionKind())
	err = c.Get(ctx, client.ObjectKeyFromObject(u), was)
	there := err == nil
	if there || apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		u = u.DeepCopy()
		err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), append(more, fieldManager)...)
	}
	switch title := u.GetKind() + " " + u.GetName(); {
	case err != nil:
		return "", fmt.Errorf("%s: %w", title, remedied(err))
	case !there:
		return "created", nil
	case was.GetResourceVersion() == u.GetResourceVersion():
		return "unchanged", nil
	}
	return "changed", nil
}

// remedied adds a remedy to an error of the API server.
func remedied(err error) error {
	switch {
	case meta.IsNoMatchError(err):
		return errors.New("the cluster has no such kind; install what is missing: nodeless crds | kubectl apply " +
			"--server-side -f -")
	case apierrors.IsConflict(err):
		return fmt.Errorf("there is another one of that name (%w); rename one of the two, or apply the manifests with "+
			"kubectl", err)
	}
	return err
}

// allowed says how an administrator allows applying.
func allowed() string {
	return target.Allow("nodeless-migrate-apply", "get,create,patch", appliedResources)
}

func writeApplied(w io.Writer, all []applied) error {
	var b strings.Builder
	for i := range all {
		b.WriteString(all[i].text())
	}
	_, err := io.WriteString(w, printable.Lines(b.String()))
	return err
}
