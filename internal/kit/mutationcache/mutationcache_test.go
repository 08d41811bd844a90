package mutationcache

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func node(version string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: version}}
}

func TestTheNewerOfCacheAndWriteIsRead(t *testing.T) {
	var c Cache[*corev1.Node]
	want := func(cached, version string) {
		t.Helper()
		if got := c.Newest(node(cached)).ResourceVersion; got != version {
			t.Errorf("with %s in the cache %s is read, want %s", cached, got, version)
		}
	}
	want("8", "8")
	c.Mutated(node("10"))
	c.Mutated(node("9"))   // a late response
	want("8", "10")        // the cache has not seen 10
	want("9", "10")        // nor now
	want("100", "100")     // versions compare as numbers
	want("8", "8")         // once overtaken, the write is forgotten
	c.Mutated(node("101")) // and can be recorded again
	want("8", "101")
	c.Forget("u")
	want("8", "8")
}
