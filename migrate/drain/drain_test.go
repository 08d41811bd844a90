package drain

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPodsThatMustNotBeEvictedSayWhy(t *testing.T) {
	yes := true
	for want, p := range map[string]*corev1.Pod{
		"has no controller": {},
		"has karpenter.sh/do-not-disrupt": {ObjectMeta: metav1.ObjectMeta{
			OwnerReferences: []metav1.OwnerReference{{Controller: &yes}},
			Annotations:     map[string]string{"karpenter.sh/do-not-disrupt": "true"},
		}},
		"is not safe-to-evict": {ObjectMeta: metav1.ObjectMeta{
			OwnerReferences: []metav1.OwnerReference{{Controller: &yes}},
			Annotations:     map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
		}},
	} {
		if got := Objection(p); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	free := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Controller: &yes}}}}
	if got := Objection(free); got != "" {
		t.Errorf("a pod of a controller may not be evicted: %s", got)
	}
}

func TestABudgetThatRefusesIsNamedOnce(t *testing.T) {
	var said []string
	w := &waits{said: map[string]bool{}, say: func(_ string, args ...any) { said = append(said, args[0].(string)) }}
	line := `error when evicting pods/"db-0" -n "shop" (will retry after 2s): Cannot evict pod as it would violate the pod's disruption budget.`
	for range 3 {
		if _, err := w.Write([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	if len(said) != 1 || said[0] != "shop/db-0" {
		t.Errorf("said %q, want the pod once", said)
	}
}
