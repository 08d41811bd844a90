package fargate

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
)

// pod returns a pod in a namespace, with a container for each text such as "cpu=500m memory=500Mi limits.cpu=2". The
// texts of init and sidecar containers begin with "init" or "sidecar".
func pod(namespace string, containers ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}}
	for i, text := range containers {
		c := corev1.Container{
			Name:      string(rune('a' + i)),
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}},
		}
		into := &p.Spec.Containers
		for word := range strings.FieldsSeq(text) {
			key, value, _ := strings.Cut(word, "=")
			switch limit, isLimit := strings.CutPrefix(key, "limits."); {
			case key == "init":
				into = &p.Spec.InitContainers
			case key == "sidecar":
				always := corev1.ContainerRestartPolicyAlways
				into, c.RestartPolicy = &p.Spec.InitContainers, &always
			case isLimit:
				c.Resources.Limits[corev1.ResourceName(limit)] = resource.MustParse(value)
			default:
				c.Resources.Requests[corev1.ResourceName(key)] = resource.MustParse(value)
			}
		}
		*into = append(*into, c)
	}
	return p
}

func labelled(p *corev1.Pod, pairs ...string) *corev1.Pod {
	for _, pair := range pairs {
		k, v, _ := strings.Cut(pair, "=")
		metav1.SetMetaDataLabel(&p.ObjectMeta, k, v)
	}
	return p
}

// profile returns a profile with a selector for each text: a namespace, and labels as k=v.
func profile(name string, selectors ...string) *v1alpha1.FargateProfile {
	p := &v1alpha1.FargateProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Sizing = v1alpha1.SizingFargate
	for _, text := range selectors {
		words := strings.Fields(text)
		s := v1alpha1.FargateProfileSelector{Namespace: words[0], Labels: map[string]v1alpha1.LabelPattern{}}
		for _, pair := range words[1:] {
			k, v, _ := strings.Cut(pair, "=")
			s.Labels[k] = v1alpha1.LabelPattern(v)
		}
		p.Spec.Selectors = append(p.Spec.Selectors, s)
	}
	return p
}

func exact(p *v1alpha1.FargateProfile) *v1alpha1.FargateProfile {
	p.Spec.Sizing = v1alpha1.SizingExact
	return p
}
