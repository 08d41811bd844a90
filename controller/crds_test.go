package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// served is an API server that serves these resources once start has passed.
type served struct {
	discovery.ServerResourcesInterface
	plurals map[string][]string
	start   time.Time
	broken  error
}

func (s served) ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error) {
	if s.broken != nil {
		return nil, s.broken
	}
	plurals, ok := s.plurals[groupVersion]
	if !ok || time.Now().Before(s.start) {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, groupVersion)
	}
	list := &metav1.APIResourceList{}
	for _, p := range plurals {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: p})
	}
	return list, nil
}

var all = map[string][]string{
	"karpenter.sh/v1":      {"nodepools", "nodeclaims"},
	"karpenter.k8s.aws/v1": {"ec2nodeclasses"},
}

func TestMissingCRDsAreNamedWithTheRemedy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := awaitCRDs(t.Context(), served{plurals: map[string][]string{"karpenter.sh/v1": {"nodepools"}}}, needed)
		for _, want := range []string{
			"nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws",
			"helm upgrade --install karpenter-crd",
		} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error lacks %q: %v", want, err)
			}
		}
		if err != nil && strings.Contains(err.Error(), "nodepools") {
			t.Errorf("it names what is there: %v", err)
		}
	})
}

func TestCRDsAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := awaitCRDs(t.Context(), served{plurals: all, start: time.Now().Add(crdWait / 2)}, needed); err != nil {
			t.Error(err)
		}
	})
}

func TestAnAPIServerThatCannotBeAskedIsNotTakenForOneWithoutCRDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("connection refused")
		if err := awaitCRDs(t.Context(), served{broken: broken}, needed); !errors.Is(err, broken) ||
			strings.Contains(err.Error(), "helm") {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := awaitCRDs(ctx, served{broken: broken}, needed); !errors.Is(err, context.Canceled) {
			t.Errorf("stopped: %v", err)
		}
	})
}
