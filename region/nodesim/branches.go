package nodesim

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/nodeless/nodeless/api/vpcresources/v1alpha1"
	"github.com/nodeless/nodeless/api/vpcresources/v1beta1"
	"github.com/nodeless/nodeless/catalog"
)

// resourceController is EKS's VPC resource controller and uses its wording (amazon-vpc-resource-controller-k8s v1.8,
// pkg/provider/branch). A node whose VPC CNI has ENABLE_POD_ENI gets a trunk interface and offers
// vpc.amazonaws.com/pod-eni. A pod that requests one gets a branch interface in the security groups of the
// SecurityGroupPolicies that select the pod. An annotation of the pod describes the interface.
type resourceController struct {
	client    kubernetes.Interface
	events    record.EventRecorder
	nodes     listers.NodeLister
	instances Instances
	log       *slog.Logger
	cooldown  time.Duration // effective one; 0 = not known yet
	windows   atomic.Bool   // Windows nodes offer addresses for pods
	onWindows func()        // called when windows has changed
}

func newResourceController(s *Simulator) *resourceController {
	return &resourceController{
		client: s.client, nodes: s.nodes, instances: s.o.Instances, log: s.o.Log,
		onWindows: func() { enqueueWindows(s) },
		events:    s.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "vpc-resource-controller"}),
	}
}

const (
	labelTrunk       = "vpc.amazonaws.com/has-trunk-attached"
	annotationBranch = v1beta1.PodENI

	cniSettings   = catalog.WindowsIPAMMap // a ConfigMap in kube-system
	branchSetting = "branch-eni-cooldown"
)

// Branch is the branch interface of a pod. Its JSON is that of the annotation.
type Branch struct {
	ID            string       `json:"eniId"`
	MAC           string       `json:"ifAddress"`
	IP            netip.Addr   `json:"privateIp"`
	IPv6          string       `json:"ipv6Addr"`
	VLAN          int          `json:"vlanId"`
	SubnetCIDR    netip.Prefix `json:"subnetCidr"`
	SubnetV6CIDR  string       `json:"subnetV6Cidr"`
	AssociationID string       `json:"associationID"`
}

func nodeReference(name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Node", Name: name, UID: types.UID(name)}
}

func podReference(p *corev1.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion,
	}
}

// startFeatures provides what a node's VPC CNI requires besides addresses, and records it in the node's CNINode.
func (r *resourceController) startFeatures(ctx context.Context, m *Instance, c catalog.CNI) {
	if m.Type == nil {
		return
	}
	if err := r.keepCNINode(ctx, m, c); err != nil {
		r.log.Warn("node simulator: CNINode", "node", m.Name, "error", err)
	}
	branches := c.Branches(m.Type)
	if branches == 0 {
		return
	}
	if err := r.instances.AttachTrunk(m.ID); err != nil {
		r.events.Eventf(nodeReference(m.Name), corev1.EventTypeWarning, "TrunkENICreationFailed",
			"Failed to create trunk interface: %v", err)
		return
	}
	if err := r.offerBranches(ctx, m.Name, branches); err != nil {
		r.log.Warn("node simulator: branches of a node", "node", m.Name, "error", err)
		return
	}
	r.events.Eventf(nodeReference(m.Name), corev1.EventTypeNormal, "NodeTrunkInitiated",
		"The node has trunk interface initialized successfully")
}

// keepCNINode creates the CNINode of a node, or updates its features. It does nothing if the kind is not defined.
func (r *resourceController) keepCNINode(ctx context.Context, m *Instance, c catalog.CNI) error {
	node, err := r.nodes.Get(m.Name)
	if apierrors.IsNotFound(err) { // not yet in the watch
		node, err = r.client.CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{})
	}
	if err != nil {
		return err
	}
	n := v1alpha1.CNINode{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.Group + "/v1alpha1", Kind: "CNINode"},
		ObjectMeta: metav1.ObjectMeta{Name: m.Name, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID,
		}}},
	}
	if c.Branches(m.Type) > 0 {
		n.Spec.Features = append(n.Spec.Features, v1alpha1.Feature{Name: v1alpha1.SecurityGroupsForPods})
	}
	if c.CustomNetwork {
		n.Spec.Features = append(n.Spec.Features, v1alpha1.Feature{
			Name: v1alpha1.CustomNetworking, Value: c.ENIConfig(node.Labels, node.Annotations),
		})
	}
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}
	const path = "/apis/" + v1alpha1.Group + "/v1alpha1/cninodes"
	rest := r.client.CoreV1().RESTClient()
	err = rest.Post().AbsPath(path).SetHeader("Content-Type", "application/json").
		SetHeader("Accept", "application/json").Body(body).Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) {
		if body, err = json.Marshal(map[string]any{
			"metadata": map[string]any{"ownerReferences": n.OwnerReferences},
			"spec":     map[string]any{"features": n.Spec.Features},
		}); err != nil {
			return err
		}
		err = rest.Patch(types.MergePatchType).AbsPath(path+"/"+m.Name).SetHeader("Accept", "application/json").Body(body).
			Do(ctx).Error()
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// offerBranches makes a node offer branch interfaces.
func (r *resourceController) offerBranches(ctx context.Context, node string, branches int) error {
	offered := map[string]string{v1beta1.PodENI: strconv.Itoa(branches)}
	for subresource, patch := range map[string]any{
		"":       map[string]any{"metadata": map[string]any{"labels": map[string]string{labelTrunk: "true"}}},
		"status": map[string]any{"status": map[string]any{"capacity": offered, "allocatable": offered}},
	} {
		body, err := json.Marshal(patch)
		if err != nil {
			return err
		}
		_, err = r.client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, body, metav1.PatchOptions{},
			slices.DeleteFunc([]string{subresource}, func(s string) bool { return s == "" })...)
		if err != nil {
			return err
		}
	}
	return nil
}

// assignAddress assigns a pod an address of its node's interfaces, or a branch interface. It returns the updated pod.
func (r *resourceController) assignAddress(ctx context.Context, pod *corev1.Pod, m *Instance) (netip.Addr, *corev1.Pod,
	error,
) {
	if v1beta1.AsksForBranch(pod) {
		return r.assignBranch(ctx, pod, m)
	}
	ip, err := r.instances.AssignPodIP(m.ID, string(pod.UID))
	return ip, pod, err
}

// assignBranch assigns a pod its branch interface, and returns its address and the annotated pod.
func (r *resourceController) assignBranch(ctx context.Context, pod *corev1.Pod, m *Instance) (netip.Addr, *corev1.Pod,
	error,
) {
	_, annotated := pod.Annotations[annotationBranch]
	var groups []string
	if !annotated {
		var err error
		if groups, err = r.securityGroupsOf(ctx, pod); err != nil {
			return netip.Addr{}, nil, err
		}
	}
	b, err := r.instances.AssignBranch(m.ID, string(pod.UID), groups)
	switch {
	case err != nil:
		r.events.Eventf(podReference(pod), corev1.EventTypeWarning, "BranchAllocationFailed",
			"failed to allocate branch ENI to pod: %v", err)
		return netip.Addr{}, nil, err
	case annotated:
		return b.IP, pod, nil
	case len(groups) == 0:
		r.events.Eventf(podReference(pod), corev1.EventTypeWarning, "SecurityGroupRequested",
			"Pod will get the instance security group as the pod didn't match any Security Group from SecurityGroupPolicy")
	default:
		r.events.Eventf(podReference(pod), corev1.EventTypeNormal, "SecurityGroupRequested",
			"Pod will get the following Security Groups %v", groups)
	}
	text, err := json.Marshal([]Branch{b})
	if err != nil {
		return netip.Addr{}, nil, err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]string{annotationBranch: string(text)},
	}})
	if err != nil {
		return netip.Addr{}, nil, err
	}
	pod, err = r.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch,
		metav1.PatchOptions{})
	if err != nil {
		return netip.Addr{}, nil, fmt.Errorf("annotate the pod with its branch interface: %w", err)
	}
	r.events.Eventf(podReference(pod), corev1.EventTypeNormal, "ResourceAllocated", "Allocated %s to the pod", text)
	return b.IP, pod, nil
}

// securityGroupsOf returns the security groups of a pod according to the policies of its namespace.
func (r *resourceController) securityGroupsOf(ctx context.Context, pod *corev1.Pod) ([]string, error) {
	var policies v1beta1.SecurityGroupPolicyList
	err := readAs(ctx, r.client,
		"/apis/"+v1beta1.GroupVersion.String()+"/namespaces/"+pod.Namespace+"/securitygrouppolicies", &policies)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the SecurityGroupPolicies of namespace %s: %w", pod.Namespace, err)
	}
	if len(policies.Items) == 0 {
		return nil, nil
	}
	account, err := r.client.CoreV1().ServiceAccounts(pod.Namespace).Get(ctx, pod.Spec.ServiceAccountName,
		metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the service account of the pod: %w", err)
	}
	return v1beta1.GroupsOf(policies.Items, pod.Labels, account.Labels), nil
}

// configure applies the settings of the ConfigMap amazon-vpc-cni; missing ones have their defaults.
func (r *resourceController) configure(settings map[string]string) {
	var cooldown time.Duration // the default
	if n, err := strconv.Atoi(settings[branchSetting]); err == nil && n >= 0 {
		cooldown = max(time.Duration(n)*time.Second, 1)
	}
	cooldown = r.instances.SetBranchCooldown(cooldown)
	before := r.cooldown
	r.cooldown = cooldown
	if before == 0 || before == cooldown {
		return
	}
	nodes, err := r.nodes.List(labels.SelectorFromSet(labels.Set{labelTrunk: "true"}))
	if err != nil {
		return
	}
	for _, n := range nodes {
		r.events.Eventf(nodeReference(n.Name), corev1.EventTypeNormal, "BranchENICoolDownPeriodUpdated",
			"Branch ENI cool down period has been updated to %s", cooldown)
	}
}

// settingsHandler applies the settings of the VPC CNI when they change.
func (r *resourceController) settingsHandler() cache.ResourceEventHandler {
	use := func(settings map[string]string) {
		r.configure(settings)
		if on := settings[catalog.WindowsIPAMKey] == "true"; r.windows.Swap(on) != on {
			r.onWindows()
		}
	}
	read := func(o any) {
		if c, ok := o.(*corev1.ConfigMap); ok {
			use(c.Data)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: read, UpdateFunc: func(_, o any) { read(o) }, DeleteFunc: func(any) { use(nil) },
	}
}

// readAs reads an API path into an object of a kind that the client does not know.
func readAs(ctx context.Context, client kubernetes.Interface, path string, into any) error {
	raw, err := client.CoreV1().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}
