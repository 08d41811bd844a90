package apply

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/engine/model"
)

// mostMessage is the most bytes of an event's message that the API server takes (k8s.io/kubernetes v1.36,
// NoteLengthLimit).
const mostMessage = 1024

// shortened leaves out the end of the pools' answers, which are parted by semicolons, but not the last part: that
// says what would help.
func shortened(message string) string {
	if len(message) <= mostMessage {
		return message
	}
	const gap = "; …"
	last := ""
	if i := strings.LastIndex(message, "; "); i >= 0 && len(message)-i <= mostMessage/2 {
		last = message[i:]
	}
	head := message[:mostMessage-len(gap)-len(last)]
	if i := strings.LastIndex(head, "; "); i > len(head)/2 {
		head = head[:i]
	}
	return strings.ToValidUTF8(head, "") + gap + last
}

// say writes an event on a pod and reports that it did, unless the same was said lately or too much is said at once:
// then a later plan says it.
func (r *reporter) say(key model.PodKey, kind, reason, message string, now time.Time, rate *bucket) bool {
	message = shortened(message)
	what := reason + " " + message
	if was, ok := r.said[key]; ok && was.what == what && now.Sub(was.at) < sayAgain {
		return false
	}
	pod := r.o.State.Pod(types.NamespacedName{Namespace: key.Namespace, Name: key.Name})
	if pod == nil || string(pod.UID) != key.UID || !rate.take(now) {
		return false
	}
	r.said[key] = said{what: what, at: now}
	r.o.Recorder.Event(pod, kind, reason, message)
	return true
}

// forget drops what is remembered of pods that do not wait any more.
func (r *reporter) forget(s *model.Snapshot) {
	if len(r.said)+len(r.stuck)+len(r.promised) == 0 {
		return
	}
	waiting := make(map[model.PodKey]bool, len(s.Pending))
	for i := range s.Pending {
		waiting[s.Pending[i].PodKey] = true
	}
	for pod := range r.said {
		if !waiting[pod] {
			delete(r.said, pod)
		}
	}
	for pod := range r.stuck {
		if !waiting[pod] {
			delete(r.stuck, pod)
		}
	}
	for pod := range r.promised {
		if !waiting[pod] {
			delete(r.promised, pod)
		}
	}
}

// bucket lets so many events through per second, and a few more at once.
type bucket struct {
	perSecond, most float64
	used            float64
	at              time.Time
}

func (b *bucket) take(now time.Time) bool {
	if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.used = max(0, b.used-passed*b.perSecond)
		b.at = now
	}
	if b.used+1 > b.most {
		return false
	}
	b.used++
	return true
}
