package apisim

import (
	"net/http"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// replace stores a new version, if anything changed. Fields that the caller must not change keep their values.
func (s *Server) replace(r *request, was *record, o *unstructured.Unstructured) (int, any, error) {
	old := was.object
	if v := o.GetResourceVersion(); v != "" && v != old.GetResourceVersion() {
		return 0, nil, conflict(r,
			"the object has been modified; please apply your changes to the latest version and try again")
	}
	if uid := o.GetUID(); uid != "" && uid != old.GetUID() {
		return 0, nil, conflict(r, "Precondition failed: UID in precondition: %s, UID in object meta: %s", uid, old.GetUID())
	}
	is := o.DeepCopy()
	if r.subresource == "status" {
		is = old.DeepCopy()
		is.Object["status"] = o.Object["status"]
	} else if status, has := old.Object["status"]; r.kind.custom || r.kind.Kind == "Pod" || r.kind.Kind == "Node" ||
		r.kind.Kind == "ReplicaSet" {
		if is.Object["status"] = status; !has {
			delete(is.Object, "status")
		}
	}
	is.SetGroupVersionKind(r.kind.GroupVersionKind)
	is.SetName(old.GetName())
	is.SetNamespace(old.GetNamespace())
	is.SetUID(old.GetUID())
	is.SetCreationTimestamp(old.GetCreationTimestamp())
	is.SetDeletionTimestamp(old.GetDeletionTimestamp())
	is.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	is.SetGeneration(old.GetGeneration())
	is.SetResourceVersion(old.GetResourceVersion())
	if !reflect.DeepEqual(old.Object["spec"], is.Object["spec"]) {
		is.SetGeneration(old.GetGeneration() + 1)
	}
	if reflect.DeepEqual(old.Object, is.Object) {
		return http.StatusOK, rawObject(was.text), nil
	}
	t := s.table(r.kind)
	if is.GetDeletionTimestamp() != nil && len(is.GetFinalizers()) == 0 &&
		*orZero(is.GetDeletionGracePeriodSeconds()) == 0 {
		return http.StatusOK, rawObject(s.put(t, &record{object: is}, nil, r.UserAgent()).text), nil
	}
	return http.StatusOK, rawObject(s.put(t, was, is, r.UserAgent()).text), nil
}

func orZero(p *int64) *int64 {
	if p == nil {
		return new(int64)
	}
	return p
}

func (s *Server) delete(r *request) (int, any, error) {
	was, err := s.find(r)
	if err != nil {
		return 0, nil, err
	}
	var o metav1.DeleteOptions
	if len(r.body) > 0 {
		read, err := decode(r)
		if err != nil {
			return 0, nil, err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(read.Object, &o); err != nil {
			return 0, nil, badRequest("DeleteOptions: %v", err)
		}
	}
	if p := o.Preconditions; p != nil {
		if p.UID != nil && *p.UID != was.object.GetUID() {
			return 0, nil, conflict(r,
				"the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted "+
					"and then recreated", *p.UID, was.object.GetUID())
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != was.object.GetResourceVersion() {
			return 0, nil, conflict(r,
				"the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object "+
					"might have been modified", *p.ResourceVersion, was.object.GetResourceVersion())
		}
	}
	return http.StatusOK, s.remove(r, was, o.GracePeriodSeconds), nil
}

// remove deletes an object, or marks it as being deleted if it has a grace period or finalizers.
func (s *Server) remove(r *request, was *record, asked *int64) rawObject {
	old := was.object
	var grace int64
	if r.kind.Kind == "Pod" {
		grace = podGrace(old, asked)
	}
	t := s.table(r.kind)
	if before := old.GetDeletionTimestamp(); before != nil {
		if left := *orZero(old.GetDeletionGracePeriodSeconds()); grace >= left && (left > 0 || len(old.GetFinalizers()) > 0) {
			return was.text // it is already being deleted, no later than this
		}
	}
	if grace == 0 && len(old.GetFinalizers()) == 0 {
		return s.put(t, was, nil, r.UserAgent()).text
	}
	is := old.DeepCopy()
	at := metav1.NewTime(time.Now().Truncate(time.Second).Add(time.Duration(grace) * time.Second))
	if before := old.GetDeletionTimestamp(); before != nil { // earlier than before
		at = metav1.NewTime(before.Add(-time.Duration(*orZero(old.GetDeletionGracePeriodSeconds())-grace) * time.Second))
	}
	is.SetDeletionTimestamp(&at)
	is.SetDeletionGracePeriodSeconds(&grace)
	is.SetGeneration(old.GetGeneration() + 1)
	return s.put(t, was, is, r.UserAgent()).text
}
