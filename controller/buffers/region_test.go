package buffers_test

import (
	"context"
	"slices"
	"sync"
	"time"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	opstatus "github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/engine/model"
)

// region is a cloud in memory that sells one small type. Its instances register as ready Nodes at once.
type region struct {
	api client.Client
	ctx context.Context // ends with the test

	mu       sync.Mutex
	machines map[string]cloud.Instance
}

func (r *region) Name() string { return "memory" }

func size() (capacity, allocatable model.Resources) {
	return model.Resources{model.CPU: 2000, model.Memory: 4 << 30, model.Pods: 29},
		model.Resources{model.CPU: 1900, model.Memory: 3 << 30, model.Pods: 29}
}

func (r *region) Catalog(context.Context, cloud.ClassRef) ([]model.InstanceType, error) {
	capacity, allocatable := size()
	return []model.InstanceType{{
		Name: "c5.large", Capacity: capacity, Allocatable: allocatable,
		Requirements: model.NewRequirements(model.OneOf(model.LabelInstanceType, "c5.large"),
			model.OneOf(model.LabelOS, "linux"), model.OneOf(model.LabelArch, "amd64")),
		Offerings: []model.Offering{{Zone: "a", CapacityType: model.OnDemand, Price: 85000, Available: true}},
	}}, nil
}

func (r *region) Launch(ctx context.Context, req cloud.LaunchRequest) (cloud.LaunchResult, error) {
	capacity, allocatable := size()
	m := cloud.Instance{
		ID: "i-" + req.Claim, ProviderID: "aws:///a/i-" + req.Claim, Claim: req.Claim, Pool: req.Pool, Type: "c5.large",
		Zone:         "a",
		CapacityType: model.OnDemand, State: cloud.Running, Launched: time.Now(), Capacity: capacity,
		Allocatable: allocatable,
		Labels: map[string]string{
			model.LabelInstanceType: "c5.large", model.LabelZone: "a", model.LabelCapacityType: model.OnDemand,
			model.LabelOS: "linux", model.LabelArch: "amd64",
		},
	}
	r.mu.Lock()
	r.machines[m.ID] = m
	r.mu.Unlock()
	return cloud.LaunchResult{Instance: m}, r.boot(ctx, &m, req.Labels)
}

// boot registers the instance's Node as a kubelet would. The Node becomes ready once the controller has registered it.
func (r *region) boot(ctx context.Context, m *cloud.Instance, labels map[string]string) error {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:   "node-" + m.Claim,
			Labels: map[string]string{corev1.LabelHostname: "node-" + m.Claim},
		},
		Spec: corev1.NodeSpec{ProviderID: m.ProviderID, Taints: []corev1.Taint{karpv1.UnregisteredNoExecuteTaint}},
	}
	for _, from := range []map[string]string{labels, m.Labels} {
		for k, v := range from {
			node.Labels[k] = v
		}
	}
	if err := r.api.Create(ctx, node); err != nil {
		return client.IgnoreAlreadyExists(err)
	}
	go r.ready(m.ID, node.Name)
	return nil
}

// ready makes a Node ready when it no longer has the taint of Nodes that are not registered, and keeps it ready:
// Kubernetes takes a Node without heartbeats for lost after 50 s.
func (r *region) ready(id, name string) {
	node := &corev1.Node{}
	if err := wait.PollUntilContextTimeout(r.ctx, 20*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			err := r.api.Get(ctx, client.ObjectKey{Name: name}, node)
			return err == nil && !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
				return t.MatchTaint(&karpv1.UnregisteredNoExecuteTaint)
			}), client.IgnoreNotFound(err)
		}); err != nil {
		return // the story waits for its machines in vain
	}
	room := corev1.ResourceList{
		"cpu": resource.MustParse("1900m"), "memory": resource.MustParse("3Gi"),
		"pods": resource.MustParse("29"),
	}
	before, began := node.DeepCopy(), metav1.Now()
	node.Status.Capacity, node.Status.Allocatable = room.DeepCopy(), room
	node.Status.Capacity["cpu"] = resource.MustParse("2")
	beat := time.NewTicker(10 * time.Second)
	defer beat.Stop()
	for {
		node.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: began,
		}}
		_ = r.api.Status().Patch(r.ctx, node.DeepCopy(), client.MergeFrom(before))
		select {
		case <-beat.C:
		case <-r.ctx.Done():
			return
		}
		if _, err := r.Get(r.ctx, id); err != nil {
			return
		}
	}
}

func (r *region) Terminate(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.machines[id]; !ok {
		return cloud.ErrNotFound
	}
	delete(r.machines, id)
	return nil
}

func (r *region) Get(_ context.Context, id string) (cloud.Instance, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m, ok := r.machines[id]; ok {
		return m, nil
	}
	return cloud.Instance{}, cloud.ErrNotFound
}

func (r *region) List(context.Context) ([]cloud.Instance, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []cloud.Instance
	for _, m := range r.machines {
		out = append(out, m)
	}
	return out, nil
}

func (r *region) Resolve(_ context.Context, class *ec2v1.EC2NodeClass) error {
	conditions := class.StatusConditions()
	for _, c := range conditions.List() {
		if c.Type != opstatus.ConditionReady {
			conditions.SetTrue(c.Type)
		}
	}
	return nil
}
