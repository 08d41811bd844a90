package record

import (
	"slices"
	"time"
)

// shortUID is how much of a pod's UID is kept: enough to tell pods of the same name apart.
const shortUID = 8

// ShortUID is the beginning of a UID, as records keep it.
func ShortUID(uid string) string { return uid[:min(len(uid), shortUID)] }

// AboutPod reports whether the record is about this very pod (namespace/name) and not about another one of the same
// name. Records of older versions have no UIDs: they count if they were made when the pod existed.
func (r *Record) AboutPod(name, uid string, created time.Time) bool {
	of, found := r.PodUID(name)
	switch {
	case !found:
		return false
	case of == "" || uid == "":
		return !r.Time.Before(created.Truncate(time.Second)) // the API server writes times in whole seconds
	}
	return of == ShortUID(uid)
}

// PodUID returns the ShortUID of the pod (namespace/name) that the record is about, "" if it has none, and whether
// the record is about such a pod.
func (r *Record) PodUID(name string) (uid string, found bool) {
	if uid, found = uidIn(r.Pods, r.PodUIDs, name); found {
		return uid, true
	}
	for i := range r.Removed {
		if uid, found = uidIn(r.Removed[i].Pods, r.Removed[i].PodUIDs, name); found {
			return uid, true
		}
	}
	return "", false
}

func uidIn(names, uids []string, name string) (string, bool) {
	i := slices.Index(names, name)
	if i < 0 || i >= len(uids) {
		return "", i >= 0
	}
	return uids[i], true
}
