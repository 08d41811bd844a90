package eksmetrics

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/nodeless/nodeless/plane/planetest"
)

func TestMain(m *testing.M) { planetest.Main(m) }

func TestTheControlPlanesMetrics(t *testing.T) {
	p := planetest.Start(t)
	client, err := kubernetes.NewForConfig(p.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- API(legacyregistry.DefaultGatherer).Run(ctx, p.Kubeconfig()) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	get := func(path string) (string, error) {
		out, err := client.RESTClient().Get().AbsPath(path).DoRaw(t.Context())
		return string(out), err
	}
	var list string
	planetest.Eventually(t, "the aggregator finds the API", func(context.Context) (err error) {
		list, err = get("/apis/metrics.eks.amazonaws.com/v1")
		return err
	})
	for _, resource := range []string{"kcm/metrics", "ksh/metrics"} {
		if !strings.Contains(list, `"`+resource+`"`) {
			t.Errorf("discovery has no %s:\n%s", resource, list)
		}
	}
	for component, want := range map[string]struct{ has, hasNot string }{
		"ksh": {"\nscheduler_pending_pods{", "\ncronjob_controller_"},
		"kcm": {"\ncronjob_controller_", "\nscheduler_pending_pods{"},
	} {
		planetest.Eventually(t, "metrics of "+component, func(context.Context) error {
			got, err := get("/apis/metrics.eks.amazonaws.com/v1/" + component + "/container/metrics")
			if err == nil && !strings.Contains(got, want.has) {
				err = errors.New("no " + want.has + " in:\n" + got)
			}
			if strings.Contains(got, want.hasNot) || strings.Contains(got, "\napiserver_") {
				t.Errorf("%s has another component's metrics:\n%s", component, got)
			}
			return err
		})
	}
	planetest.Eventually(t, "discovery", func(context.Context) error { // an API may be unavailable for a moment
		_, err := client.Discovery().ServerResourcesForGroupVersion("metrics.eks.amazonaws.com/v1")
		return err
	})
	if _, err := client.CoreV1().Services(metav1.NamespaceSystem).Get(
		t.Context(), "eks-extension-metrics-api", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}
