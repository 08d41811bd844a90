package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/region/nodesim"
	"github.com/nodeless/nodeless/region/nodesim/regional"
)

// boot makes instances join the cluster, except for known ones. Their pods are left to the crowd.
func (s *scale) boot(t *testing.T, ctx context.Context, known map[string]bool) {
	s.c.run(t, "node simulator", func(context.Context) error {
		return nodesim.Run(ctx, nodesim.Options{
			REST: s.c.api.Config("nodesim", noPods{s.c.api}), Instances: others{regional.Instances(s.c.region), known},
			Clock: clock.Real{}, Log: s.c.log,
		})
	})
}

// others are the instances that are not known.
type others struct {
	nodesim.Instances
	known map[string]bool
}

// Watch only returns events of those instances.
func (o others) Watch(ctx context.Context) <-chan nodesim.Event {
	out := make(chan nodesim.Event)
	go func() {
		defer close(out)
		for e := range o.Instances.Watch(ctx) {
			if !o.known[e.Instance.ID] {
				select {
				case out <- e:
				case <-ctx.Done():
				}
			}
		}
	}()
	return out
}

// noPods hides all pods.
type noPods struct{ next http.RoundTripper }

// RoundTrip asks for pods with a label that none has.
func (n noPods) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.HasSuffix(req.URL.Path, "/pods") {
		q := req.URL.Query()
		q.Set("labelSelector", "none=of-these")
		req.URL.RawQuery = q.Encode()
	}
	return n.next.RoundTrip(req)
}

// generalPurpose returns a pool of on-demand nodes with 16 vCPUs.
func generalPurpose() *karpv1.NodePool {
	p := pool()
	p.Name, p.Spec.Limits = "general-purpose", nil
	p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "10%"}}
	require := func(key string, values ...string) karpv1.NodeSelectorRequirementWithMinValues {
		return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		require(karpv1.CapacityTypeLabelKey, "on-demand"), require("kubernetes.io/arch", "amd64"),
		require("karpenter.k8s.aws/instance-category", "c", "m", "r"), require("karpenter.k8s.aws/instance-cpu", "16"),
	}
	return p
}

// idle lets kubelets report every five minutes that nothing has changed.
func (s *scale) idle(d time.Duration) error {
	const interval = 5 * time.Minute
	for end := time.Now().Add(d); time.Now().Before(end); {
		all := s.c.api.Objects(nodesGVR)
		for i, node := range all {
			if err := s.heartbeat(node); err != nil {
				return err
			}
			time.Sleep(interval*time.Duration(i+1)/time.Duration(len(all)) - interval*time.Duration(i)/time.Duration(len(all)))
		}
	}
	return nil
}

func (s *scale) heartbeat(node *unstructured.Unstructured) error {
	conditions, _, _ := unstructured.NestedSlice(node.Object, "status", "conditions")
	for _, c := range conditions {
		c.(map[string]any)["lastHeartbeatTime"] = time.Now().UTC().Format(time.RFC3339)
	}
	body, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
	if err != nil {
		return err
	}
	return s.call(http.MethodPatch, "/api/v1/nodes/"+node.GetName()+"/status", heartbeatAgent, body)
}

// call makes a call with the given user agent.
func (s *scale) call(method, path, by string, body []byte) error {
	req, err := http.NewRequest(method, "http://apisim"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", string(types.MergePatchType))
	req.Header.Set("User-Agent", by)
	resp, err := s.c.api.RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= 300 && resp.StatusCode != http.StatusNotFound {
		text, err := io.ReadAll(resp.Body)
		return errors.Join(fmt.Errorf("%s %s: %s", method, path, text), err)
	}
	return nil
}
