package status

import (
	"encoding/json"
	"slices"
	"sync"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	opstatus "github.com/awslabs/operatorpkg/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kind is a kind of node class besides EC2NodeClass. Its instances are EC2's, too: an object of the kind stands for
// an EC2NodeClass that exists only in memory, and shows only the condition Ready of its status.
type Kind struct {
	schema.GroupVersionKind
	// Spec returns the spec of the EC2NodeClass that an object of the kind stands for. It must not modify the object.
	Spec func(object *unstructured.Unstructured) ec2v1.EC2NodeClassSpec
}

// handle works with the objects of one kind. It does not modify the objects passed to it.
type handle interface {
	// empty returns an object to read into and to watch.
	empty() client.Object
	// view returns the class that an object stands for, with everything known about it; it must not be modified.
	view(client.Object) *ec2v1.EC2NodeClass
	// draft returns a copy of the class that an object stands for, to be resolved.
	draft(client.Object) *ec2v1.EC2NodeClass
	// settled returns a copy of the object that shows the result of resolving its draft.
	settled(object client.Object, draft *ec2v1.EC2NodeClass, now metav1.Time) client.Object
	// finalizer returns the finalizer that objects have as long as something exists for them in the cloud; "" = none.
	finalizer() string
	// hashed reports whether objects carry the hash of the class they stand for.
	hashed() bool
	// remembered returns the class that a deleted object stood for; nil if it is unknown, or not needed.
	remembered(name string) *ec2v1.EC2NodeClass
	forget(types.UID)
}

// ec2Kind is EC2NodeClass, which stands for itself.
type ec2Kind struct{}

func (ec2Kind) empty() client.Object { return &ec2v1.EC2NodeClass{} }

func (ec2Kind) view(o client.Object) *ec2v1.EC2NodeClass { return o.(*ec2v1.EC2NodeClass) }

func (ec2Kind) draft(o client.Object) *ec2v1.EC2NodeClass { return o.(*ec2v1.EC2NodeClass).DeepCopy() }

func (ec2Kind) settled(_ client.Object, draft *ec2v1.EC2NodeClass, _ metav1.Time) client.Object {
	return draft.DeepCopy()
}

func (ec2Kind) finalizer() string { return ec2v1.TerminationFinalizer }

func (ec2Kind) hashed() bool { return true }

func (ec2Kind) remembered(string) *ec2v1.EC2NodeClass { return nil }

func (ec2Kind) forget(types.UID) {}

// foreignKind remembers what its objects, which have no field for it, were resolved to. It writes nothing on them
// that they already say, and no finalizer: they belong to others.
type foreignKind struct {
	Kind
	mu    sync.Mutex
	found map[types.UID]finding
}

// finding is what an object was resolved to.
type finding struct {
	name   string
	status ec2v1.EC2NodeClassStatus
	serial string // differs when the status does
}

func (k *foreignKind) empty() client.Object {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(k.GroupVersionKind)
	return o
}

// view takes the condition Ready from the object itself: others may have written that it is not ready.
func (k *foreignKind) view(o client.Object) *ec2v1.EC2NodeClass {
	class, serial := k.stands(o)
	// Results that follow from a class are cached by its version; here the status has a version of its own.
	class.ResourceVersion += "/" + serial
	class.Status.Conditions = slices.DeleteFunc(class.Status.Conditions, isReady)
	for _, c := range conditionsOf(o) {
		if isReady(c) {
			class.Status.Conditions = append(class.Status.Conditions, c)
		}
	}
	return class
}

func (k *foreignKind) draft(o client.Object) *ec2v1.EC2NodeClass {
	class, _ := k.stands(o)
	return class
}

func (k *foreignKind) stands(o client.Object) (*ec2v1.EC2NodeClass, string) {
	object := o.(*unstructured.Unstructured)
	version, kind := k.ToAPIVersionAndKind()
	class := &ec2v1.EC2NodeClass{
		TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: object.GetName(), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
			Generation:        object.GetGeneration(),
			CreationTimestamp: object.GetCreationTimestamp(), DeletionTimestamp: object.GetDeletionTimestamp(),
		},
		Spec: k.Spec(object),
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	found := k.found[object.GetUID()]
	class.Status = *found.status.DeepCopy()
	return class, found.serial
}

func (k *foreignKind) settled(o client.Object, draft *ec2v1.EC2NodeClass, now metav1.Time) client.Object {
	k.mu.Lock()
	if text, err := json.Marshal(draft.Status); err == nil { // such a status always has a JSON form
		k.found[draft.UID] = finding{draft.Name, *draft.Status.DeepCopy(), string(text)}
	}
	k.mu.Unlock()
	ready := metav1.Condition{
		Type: opstatus.ConditionReady, Status: metav1.ConditionTrue, Reason: opstatus.ConditionReady,
		LastTransitionTime: now, ObservedGeneration: draft.Generation,
	}
	if why := notReady(draft); why != "" {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "NotResolved", why
	}
	others := []opstatus.Condition{}
	for _, c := range conditionsOf(o) {
		if !isReady(c) {
			others = append(others, c)
		} else if c.Status == ready.Status {
			if c.Status == metav1.ConditionTrue && (c.ObservedGeneration == 0 ||
				c.ObservedGeneration == ready.ObservedGeneration) {
				return o
			}
			ready.LastTransitionTime = c.LastTransitionTime
		}
	}
	object := o.(*unstructured.Unstructured).DeepCopy()
	setConditions(object, append(others, opstatus.Condition(ready)))
	return object
}

func (k *foreignKind) finalizer() string { return "" }

func (k *foreignKind) hashed() bool { return false }

func (k *foreignKind) remembered(name string) *ec2v1.EC2NodeClass {
	k.mu.Lock()
	defer k.mu.Unlock()
	for uid, found := range k.found {
		if found.name == name {
			version, kind := k.ToAPIVersionAndKind()
			return &ec2v1.EC2NodeClass{
				TypeMeta:   metav1.TypeMeta{APIVersion: version, Kind: kind},
				ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid},
			}
		}
	}
	return nil
}

func (k *foreignKind) forget(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.found, uid)
}

func isReady(c opstatus.Condition) bool { return c.Type == opstatus.ConditionReady }

// conditionsOf returns an object's conditions, without those that cannot be read.
func conditionsOf(o client.Object) []opstatus.Condition {
	var object struct {
		Status struct {
			Conditions []opstatus.Condition `json:"conditions"`
		} `json:"status"`
	}
	if text, err := json.Marshal(o); err != nil || json.Unmarshal(text, &object) != nil {
		return nil
	}
	return object.Status.Conditions
}

func setConditions(object *unstructured.Unstructured, conditions []opstatus.Condition) {
	var list []any
	for _, c := range conditions {
		list = append(list, map[string]any{
			"type": c.Type, "status": string(c.Status), "reason": c.Reason, "message": c.Message,
			"lastTransitionTime": c.LastTransitionTime.UTC().Format("2006-01-02T15:04:05Z"),
			"observedGeneration": c.ObservedGeneration,
		})
	}
	status, _, _ := unstructured.NestedMap(object.Object, "status")
	if status == nil {
		status = map[string]any{}
	}
	status["conditions"] = list
	object.Object["status"] = status
}
