package apisim_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/nodeless/nodeless/lab/apisim"
)

// A client that prefers protobuf gets the same objects, and a watch from before the retained history expires.
func TestAWatchInProtobufOfWhatIsKept(t *testing.T) {
	s := apisim.New()
	s.Protobuf()
	s.Keep(2)
	config := s.Config("test", nil)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	maps := kube.CoreV1().ConfigMaps("default")
	var versions []string
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		made, err := maps.Create(context.Background(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"is": name},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, made.ResourceVersion)
	}
	w, err := maps.Watch(context.Background(), metav1.ListOptions{ResourceVersion: versions[3]})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	e := <-w.ResultChan()
	if got, ok := e.Object.(*corev1.ConfigMap); e.Type != watch.Added || !ok || got.Name != "e" || got.Data["is"] != "e" {
		t.Errorf("%s %v", e.Type, e.Object)
	}
	_, err = maps.Watch(context.Background(), metav1.ListOptions{ResourceVersion: versions[0]})
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch from the first revision: %v", err)
	}
}
