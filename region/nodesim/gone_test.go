package nodesim_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/lab/apisim"
	"github.com/nodeless/nodeless/plane/planetest"
	"github.com/nodeless/nodeless/region/nodesim"
)

// crowd is a transport that delays the creation of the Node tardy until the test lets it continue.
type crowd struct {
	api                http.RoundTripper
	came, let, through chan struct{}
}

func (c crowd) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodPost || !strings.HasSuffix(req.URL.Path, "/nodes") || !bodyNames(req, "tardy") {
		return c.api.RoundTrip(req)
	}
	close(c.came)
	<-c.let
	defer close(c.through)
	return c.api.RoundTrip(req)
}

func bodyNames(req *http.Request, name string) bool {
	body, err := req.GetBody()
	if err != nil {
		return false
	}
	raw, err := io.ReadAll(body)
	return err == nil && bytes.Contains(raw, []byte(name))
}

// inMemory starts a simulator with an API server that it reaches through the crowd.
func inMemory(t *testing.T) (hall, crowd, kubernetes.Interface) {
	server := apisim.New()
	c := crowd{api: server, came: make(chan struct{}), let: make(chan struct{}), through: make(chan struct{})}
	api, err := kubernetes.NewForConfig(server.Config("test", nil))
	if err != nil {
		t.Fatal(err)
	}
	h := make(hall)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- nodesim.Run(ctx, nodesim.Options{
			REST: server.Config("nodesim", c), Instances: h, Clock: clock.Real{},
			Log: slog.New(slog.DiscardHandler),
		})
	}()
	t.Cleanup(func() {
		cancel()
		close(h)
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the simulator ended with %v", err)
		}
	})
	return h, c, api
}

// A kubelet's registration may take seconds when the API server is busy, and its instance may be terminated
// meanwhile.
func TestANodeDoesNotOutliveItsInstance(t *testing.T) {
	h, c, api := inMemory(t)
	nodes := api.CoreV1().Nodes()
	h.boot("tardy")
	<-c.came
	h <- nodesim.Event{Kind: nodesim.Ending, Instance: instance("tardy")}
	h <- nodesim.Event{Kind: nodesim.Gone, Instance: instance("tardy")}
	h.boot("next")
	planetest.Eventually(t, "the next instance joins", func(ctx context.Context) error {
		_, err := nodes.Get(ctx, "next", metav1.GetOptions{})
		return err
	})
	close(c.let)
	<-c.through
	planetest.Eventually(t, "the Node goes with its instance", func(ctx context.Context) error {
		if _, err := nodes.Get(ctx, "tardy", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("asked for it, the API server says %v", err)
		}
		return nil
	})
}

// An address, and with it the name of a Node, is reused: what is left of the previous instance is not mistaken for
// the new one's.
func TestANameComesAgain(t *testing.T) {
	h, _, api := inMemory(t)
	nodes := api.CoreV1().Nodes()
	old, young := instance("name"), instance("name")
	old.ProviderID, young.ID, young.ProviderID = "aws:///a/i-old", "i-young", "aws:///a/i-young"
	is := func(id string) {
		t.Helper()
		planetest.Eventually(t, "the Node is that of "+id, func(ctx context.Context) error {
			node, err := nodes.Get(ctx, "name", metav1.GetOptions{})
			if err == nil && node.Spec.ProviderID != id {
				err = fmt.Errorf("it is that of %s", node.Spec.ProviderID)
			}
			return err
		})
	}
	h <- nodesim.Event{Kind: nodesim.Booted, Instance: old}
	is(old.ProviderID)
	held, err := nodes.Get(context.Background(), "name", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	held.Finalizers = []string{"test/held"}
	if held, err = nodes.Update(context.Background(), held, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	h <- nodesim.Event{Kind: nodesim.Gone, Instance: old}
	h <- nodesim.Event{Kind: nodesim.Booted, Instance: young}
	planetest.Eventually(t, "the old Node is being deleted", func(ctx context.Context) error {
		held, err = nodes.Get(ctx, "name", metav1.GetOptions{})
		if err == nil && held.DeletionTimestamp == nil {
			err = errors.New("nobody has deleted it")
		}
		return err
	})
	held.Finalizers = nil
	if _, err := nodes.Update(context.Background(), held, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	is(young.ProviderID)
}
