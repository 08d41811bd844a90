package podspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourceutil "k8s.io/kubernetes/pkg/api/v1/resource"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
	"k8s.io/utils/ptr"

	"github.com/nodeless/nodeless/microvm/wire"
)

// variables are a container's environment variables: its own, and those of Services, which its own override.
type variables struct {
	names            []string // of its own, in order
	values, services map[string]string
	marks            map[string]string // stand for values from files, which the guest reads; they override the other ones
	files            []wire.EnvFile
}

func (v *variables) set(name, value string) {
	delete(v.marks, name)
	for i := range v.files {
		if v.files[i].Name == name {
			v.files[i].Name = ""
		}
	}
	if _, had := v.values[name]; !had {
		v.names = append(v.names, name)
	}
	v.values[name] = value
}

// expand replaces each $(NAME) with its value, and leaves those without a value unchanged.
func (v *variables) expand(s string) (expanded string, unknown []string) {
	expanded = expansion.Expand(s, func(name string) string {
		for _, values := range []map[string]string{v.marks, v.values, v.services} {
			if value, ok := values[name]; ok {
				return value
			}
		}
		unknown = append(unknown, name)
		return "$(" + name + ")"
	})
	return expanded, unknown
}

func (v *variables) expandAll(words []string) (out []string) {
	for _, w := range words {
		expanded, _ := v.expand(w)
		out = append(out, expanded)
	}
	return out
}

// list returns the variables as NAME=value, those of Services first. It leaves out values from files.
func (v *variables) list() (out []string) {
	for _, name := range slices.Sorted(maps.Keys(v.services)) {
		if _, own := v.values[name]; !own {
			out = append(out, name+"="+v.services[name])
		}
	}
	for _, name := range v.names {
		out = append(out, name+"="+v.values[name])
	}
	return out
}

// environment returns a container's variables. A later one overrides an earlier one, and can refer to those before it.
func (t translation) environment(c *corev1.Container) (variables, error) {
	v := variables{values: map[string]string{}, services: map[string]string{}, marks: map[string]string{}}
	for _, kv := range t.o.Services {
		if name, value, ok := strings.Cut(kv, "="); ok {
			v.services[name] = value
		}
	}
	for _, from := range c.EnvFrom {
		data, err := t.from(from)
		if err != nil {
			return v, err
		}
		for _, key := range slices.Sorted(maps.Keys(data)) {
			v.set(from.Prefix+key, string(data[key]))
		}
	}
	for i := range c.Env {
		e := &c.Env[i]
		value, _ := v.expand(e.Value)
		there, err := true, error(nil)
		switch {
		case e.ValueFrom != nil && e.ValueFrom.FileKeyRef != nil:
			v.mark(e.Name, e.ValueFrom.FileKeyRef)
			there = false // the guest sets it
		case e.ValueFrom != nil:
			value, there, err = t.valueFrom(c, e.ValueFrom)
		}
		if err != nil {
			return v, fmt.Errorf("variable %s: %w", e.Name, err)
		}
		if there {
			v.set(e.Name, value)
		}
	}
	return v, nil
}

// nul begins marks. No other value contains one.
const nul = "\x00"

// mark gives a variable a value that stands for that in a file.
func (v *variables) mark(name string, ref *corev1.FileKeySelector) {
	f := wire.EnvFile{
		Name: name, Mark: fmt.Sprintf("%s%d.", nul, len(v.files)), Volume: ref.VolumeName, Path: ref.Path, Key: ref.Key,
		Optional: ptr.Deref(ref.Optional, false),
	}
	f.Otherwise, _ = v.expand("$(" + name + ")")
	v.files, v.marks[name] = append(v.files, f), f.Mark
}

// from returns the data of one source of variables.
func (t translation) from(from corev1.EnvFromSource) (map[string][]byte, error) {
	switch {
	case from.ConfigMapRef != nil:
		return t.settings(from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
	case from.SecretRef != nil:
		return t.secret(from.SecretRef.Name, from.SecretRef.Optional)
	}
	return nil, nil
}

// valueFrom returns the value of one variable; there is false for an optional one that does not exist.
func (t translation) valueFrom(c *corev1.Container, from *corev1.EnvVarSource) (value string, there bool, err error) {
	switch {
	case from.ConfigMapKeyRef != nil:
		r := from.ConfigMapKeyRef
		return key(t.settings, "configmap", r.Name, r.Key, r.Optional)
	case from.SecretKeyRef != nil:
		r := from.SecretKeyRef
		return key(t.secret, "secret", r.Name, r.Key, r.Optional)
	case from.FieldRef != nil:
		value, err := t.field(from.FieldRef.FieldPath)
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err := t.resourceField(c, from.ResourceFieldRef)
		return value, true, err
	}
	return "", false, fmt.Errorf("its source is not supported by microVMs")
}

// data reads the data of an object, nil if it does not exist and is optional.
type data func(name string, optional *bool) (map[string][]byte, error)

// key returns the value of a key; there is false for an optional one that does not exist.
func key(read data, kind, object, key string, optional *bool) (value string, there bool, err error) {
	all, err := read(object, optional)
	if err != nil {
		return "", false, err
	}
	v, ok := all[key]
	if !ok && !ptr.Deref(optional, false) {
		return "", false, missing("key", key+" in "+kind+" "+object)
	}
	return string(v), ok, nil
}

// field returns a field of the pod for the downward API.
func (t translation) field(path string) (string, error) {
	switch path {
	case "status.podIP", "status.podIPs":
		return t.o.PodIP, nil
	case "status.hostIP", "status.hostIPs":
		return t.o.HostIP, nil
	case "spec.nodeName":
		return t.pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return t.pod.Spec.ServiceAccountName, nil
	}
	value, err := fieldpath.ExtractFieldPathAsString(t.pod, path)
	if err != nil {
		return "", fmt.Errorf("field %s: %w", path, err)
	}
	return value, nil
}

// resourceField returns a container's request or limit. An unset limit is the pod's or, if it has none, the guest's
// size, as on a node.
func (t translation) resourceField(c *corev1.Container, ref *corev1.ResourceFieldSelector) (string, error) {
	for _, named := range slices.Concat(t.pod.Spec.InitContainers, t.pod.Spec.Containers) {
		if ref.ContainerName != "" && named.Name == ref.ContainerName {
			c = &named
		}
	}
	if c == nil {
		return "", missing("container", ref.ContainerName)
	}
	limits := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(t.o.CPUMilli, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(t.o.MemoryBytes, resource.BinarySI),
	}
	if ofPod := t.pod.Spec.Resources; ofPod != nil {
		maps.Copy(limits, ofPod.Limits)
	}
	c = c.DeepCopy()
	resourceutil.MergeContainerResourceLimits(c, limits)
	return resourceutil.ExtractContainerResourceValue(ref, c)
}
