package informer

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestWhatAHandlerIsTold(t *testing.T) {
	var told []string
	name := func(o client.Object) string {
		if o == nil {
			return "-"
		}
		return o.GetName()
	}
	h := handler(func(old, now client.Object) { told = append(told, name(old)+" "+name(now)) })
	pod := func(name string) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	h.OnAdd(pod("a"), true)
	h.OnUpdate(pod("a"), pod("b"))
	h.OnDelete(pod("b"))
	h.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "c", Obj: pod("c")})
	h.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "nobody knows what it was"})
	if want := []string{"- a", "a b", "b -", "c -"}; !slices.Equal(told, want) {
		t.Errorf("%q, want %q", told, want)
	}
	told = nil
	latest := Latest(func(o client.Object) { told = append(told, o.GetName()) })
	latest(nil, pod("a"))
	latest(pod("a"), pod("b"))
	latest(pod("b"), nil)
	if want := []string{"a", "b", "b"}; !slices.Equal(told, want) {
		t.Errorf("%q, want %q", told, want)
	}
}
