package record

import (
	"slices"
	"time"
)

// shortUID is how much of a pod's UID is kept: enough to tell pods of one name apart, and a quarter of the bytes.
const shortUID = 8

// ShortUID is the beginning of a UID, as records keep it.
func ShortUID(uid string) string { return uid[:min(len(uid), shortUID)] }

// AboutPod reports whether the record is about this very pod (namespace/name), and not about another one of its name.
// Of records without UIDs, which older versions wrote, those count that were made when the pod was there.
func (r *Record) AboutPod(name, uid string, created time.Time) bool {
	of, found := r.PodUID(name)
	switch {
	case !found:
		return false
	case of == "" || uid == "":
		return !r.Time.Before(created.Truncate(time.Second)) // as the API server writes times
	}
	return of == ShortUID(uid)
}

// PodUID is the ShortUID of the pod of that name (namespace/name) that the record is about, "" if it does not say,
// and whether it is about one.
func (r *Record) PodUID(name string) (uid string, found bool) {
	if uid, found = uidIn(r.Pods, r.PodUIDs, name); found {
		return uid, true
	}
	for i := range r.Goes {
		if uid, found = uidIn(r.Goes[i].Pods, r.Goes[i].PodUIDs, name); found {
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
