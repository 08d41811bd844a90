package podremote_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/internal/podremote"
)

const referring = `
spec:
  serviceAccountName: worker
  imagePullSecrets: [{name: registry}]
  volumes:
  - {name: a, secret: {secretName: files}}
  - {name: b, configMap: {name: settings}}
  - {name: c, projected: {sources: [{secret: {name: part}}, {configMap: {name: kube-root-ca.crt}}, {serviceAccountToken: {path: token}}]}}
  initContainers:
  - {name: i, envFrom: [{secretRef: {name: first}}, {configMapRef: {name: first}}]}
  containers:
  - {name: c, env: [{name: P, valueFrom: {secretKeyRef: {name: password, key: k}}}, {name: Q, valueFrom: {configMapKeyRef: {name: settings, key: k}}}]}
`

func TestAHostMayReadWhatThePodNames(t *testing.T) {
	pod := &corev1.Pod{}
	if err := yaml.Unmarshal([]byte(referring), pod); err != nil {
		t.Fatal(err)
	}
	secrets, configMaps := podremote.References(pod)
	if !slices.Equal(secrets, []string{"files", "first", "part", "password", "registry"}) || !slices.Equal(configMaps, []string{"first", "kube-root-ca.crt", "settings"}) {
		t.Errorf("secrets %v, configmaps %v", secrets, configMaps)
	}
	for _, r := range podremote.Rights(&corev1.Pod{}) {
		if len(r.ResourceNames) == 0 && !slices.Equal(r.Resources, []string{"events"}) {
			t.Errorf("a pod that refers to nothing gives rights to all: %+v", r)
		}
	}
}
