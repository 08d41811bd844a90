package podremote

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/internal/rbac"
)

// grant lets the host read what a pod refers to, get tokens of its service account and tell of it by events. The rights go with the pod.
func (h *Host) grant(ctx context.Context, id string, pod *corev1.Pod) error {
	meta := metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: "nodeless-" + id, Labels: map[string]string{"app.kubernetes.io/name": rbac.Name},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
	}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: Rights(pod)}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: v1alpha1.HostNamespace(h.name), Name: rbac.HostAccount}},
	}
	err := h.o.Client.Create(ctx, role)
	if err == nil || apierrors.IsAlreadyExists(err) {
		err = h.o.Client.Create(ctx, binding)
	}
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("give the host what the pod refers to: %w; the controller needs the rights that \"nodeless rbac --hosts\" prints", err)
	case err != nil && !apierrors.IsAlreadyExists(err):
		return fmt.Errorf("give the host what the pod refers to: %w", err)
	}
	return nil
}

// Rights are what a host needs in the namespace of a pod that it runs.
func Rights(pod *corev1.Pod) []rbacv1.PolicyRule {
	secrets, configMaps := References(pod)
	account := pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{account}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}
	for _, read := range []struct {
		resource string
		names    []string
	}{{"secrets", secrets}, {"configmaps", configMaps}} {
		if len(read.names) > 0 { // none would mean all
			rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{read.resource}, ResourceNames: read.names, Verbs: []string{"get", "list", "watch"}})
		}
	}
	return rules
}

// References are the names of the Secrets and ConfigMaps that a pod refers to, sorted.
func References(pod *corev1.Pod) (secrets, configMaps []string) {
	s, c := map[string]bool{}, map[string]bool{}
	for _, ref := range pod.Spec.ImagePullSecrets {
		s[ref.Name] = true
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Secret != nil {
			s[v.Secret.SecretName] = true
		}
		if v.ConfigMap != nil {
			c[v.ConfigMap.Name] = true
		}
		if v.Projected == nil {
			continue
		}
		for _, p := range v.Projected.Sources {
			if p.Secret != nil {
				s[p.Secret.Name] = true
			}
			if p.ConfigMap != nil {
				c[p.ConfigMap.Name] = true
			}
		}
	}
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, from := range container.EnvFrom {
			if from.SecretRef != nil {
				s[from.SecretRef.Name] = true
			}
			if from.ConfigMapRef != nil {
				c[from.ConfigMapRef.Name] = true
			}
		}
		for _, e := range container.Env {
			if e.ValueFrom == nil {
				continue
			}
			if e.ValueFrom.SecretKeyRef != nil {
				s[e.ValueFrom.SecretKeyRef.Name] = true
			}
			if e.ValueFrom.ConfigMapKeyRef != nil {
				c[e.ValueFrom.ConfigMapKeyRef.Name] = true
			}
		}
	}
	delete(s, "")
	delete(c, "")
	return slices.Sorted(maps.Keys(s)), slices.Sorted(maps.Keys(c))
}
