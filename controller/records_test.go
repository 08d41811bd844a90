package controller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/explain/record"
	"github.com/nodeless/nodeless/explain/record/store"
	"github.com/nodeless/nodeless/lab/stacktest"
	"github.com/nodeless/nodeless/plane/planetest"
)

// Decisions can be read when pods, Nodes and the process that made them are gone, and another process continues where
// it stopped.
func TestWhatWasDecidedOutlivesEverybody(t *testing.T) {
	controller.PatientLeases(t)
	s := stacktest.Start(t)
	namespace := planetest.Namespace(t, s.Plane)
	log, err := client.New(s.Plane.RESTConfig(), client.Options{Scheme: ownScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.DeleteAllOf(context.Background(), &v1alpha1.DecisionLog{}); err != nil {
		t.Fatal(err)
	}
	reader, err := store.NewReader(s.Plane.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	read := func(ctx context.Context) ([]record.Record, error) {
		r, err := reader.Read(ctx)
		if err != nil {
			return nil, err
		}
		if len(r.Damaged) > 0 {
			t.Errorf("damaged: %v", r.Damaged)
		}
		return r.Records, nil
	}
	as := func(identity string) *stacktest.Replica {
		return s.Controller(t, func(o *controller.Options) {
			o.LeaderElection, o.LeaderNamespace, o.Identity = true, namespace, identity
		})
	}
	web := deployment(namespace, "web", 2)
	create(t, s.Client, web)
	planetest.Eventually(t, "both pods wait: they are launched for at once", func(ctx context.Context) error {
		var pods corev1.PodList
		if err := s.Client.List(ctx, &pods, client.InNamespace(namespace)); err != nil || len(pods.Items) != 2 {
			return errors.Join(err, fmt.Errorf("%d pods", len(pods.Items)))
		}
		return nil
	})
	first := as("first")
	<-first.Leads
	running(t, s.Client, web)
	first.Stop() // it writes its last records
	records, err := read(context.Background())
	if err != nil || firstLaunch(records) == nil {
		t.Fatalf("after the first process: %+v, %v", records, err)
	}
	second := as("second")
	<-second.Leads
	if err := s.Client.Delete(context.Background(), web); err != nil {
		t.Fatal(err)
	}
	gone(t, s)
	planetest.Eventually(t, "the end of all machines is written", func(ctx context.Context) error {
		if records, err = read(ctx); err != nil {
			return err
		}
		left := map[string]bool{}
		for _, r := range records {
			for _, b := range r.Launched {
				left[b.Claim] = true
			}
		}
		for _, r := range records {
			for _, o := range r.Outcomes {
				if o.Kind == record.Terminated {
					delete(left, o.Claim)
				}
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("of %v it is not", left)
		}
		return nil
	})
	second.Stop()

	launch := firstLaunch(records)
	if len(launch.Pods) != 2 || !strings.HasPrefix(launch.Pods[0], namespace+"/web-") || launch.Snapshot == "" ||
		launch.Launched[0].Chosen.DollarsPerHour <= 0 ||
		launch.Launched[0].RunnerUp == nil || launch.Outcome(record.Ready, "") == nil ||
		launch.Outcome(record.Ready, "").Node == "" {
		t.Errorf("the launch is kept as %+v", launch)
	}
	claim := launch.Launched[0].Claim
	i := slices.IndexFunc(records, func(r record.Record) bool { return len(r.Removed) > 0 && r.Removed[0].Claim == claim })
	if i < 0 {
		t.Fatalf("nothing tells why %s went: %+v", claim, records)
	}
	if end := records[i]; end.Kind != record.Remove || end.Method != "Empty" || end.SavesPerHour <= 0 ||
		end.Removed[0].Node == "" || end.Outcome(record.Terminated, claim) == nil {
		t.Errorf("the end is kept as %+v", end)
	}
	if len(record.Of(records, "pod", launch.Pods[0])) == 0 ||
		len(record.Of(records, "node", records[i].Removed[0].Node)) < 2 {
		t.Error("pod and node are not found by their names")
	}
	for _, r := range records {
		if r.Kind == record.Lost || r.Kind == record.Terminate {
			t.Errorf("unexpected: %+v", r)
		}
	}
}

// firstLaunch returns the oldest launch, nil if there is none. Records before it may say that the pool is not ready,
// from a plan made before the node class was read.
func firstLaunch(records []record.Record) *record.Record {
	if i := slices.IndexFunc(records, func(r record.Record) bool { return r.Kind == record.Launch }); i >= 0 {
		return &records[i]
	}
	return nil
}

func ownScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	return s
}
