package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/microvm/logs/pipeline"
)

func read(r *admissionv1.AdmissionRequest, into any) error {
	if err := json.Unmarshal(r.Object.Raw, into); err != nil {
		return fmt.Errorf("read %s %s/%s: %w", r.Kind.Kind, r.Namespace, r.Name, err)
	}
	return nil
}

// pods changes a new pod that a profile selects.
func (s *Server) pods(ctx context.Context, r *admissionv1.AdmissionRequest) (answer, error) {
	if r.SubResource != "" || r.Operation != admissionv1.Create {
		return answer{}, nil
	}
	var pod corev1.Pod
	if err := read(r, &pod); err != nil {
		return answer{}, err
	}
	pod.Namespace = r.Namespace // the object may lack it
	if fargate.TakesNode(&pod) {
		return answer{
			warnings: []string{"spec.nodeName: Node " + pod.Spec.NodeName + " has room for the pod it was made for alone: the " +
				"pod will not run; remove spec.nodeName"},
			patch: []operation{{"add", "/spec/schedulerName", fargate.SchedulerName}},
		}, nil
	}
	a := fargate.Admit(s.o.Profiles(), &pod, s.o.Able())
	if a.Profile == nil {
		if now, err := s.fresh.Read(ctx); err == nil {
			a = fargate.Admit(now, &pod, s.o.Able())
		} else {
			s.o.Log.Warn("cannot read FargateProfiles; a pod was matched with the cached ones", "pod",
				r.Namespace+"/"+cmp.Or(r.Name, pod.GenerateName), "error", err)
		}
	}
	if a.Profile == nil {
		return answer{warnings: a.Warnings}, nil
	}
	a.Apply(&pod, s.Logging(ctx, &a.Profile.Spec).Annotation)
	return answer{warnings: a.Warnings, patch: []operation{
		{"add", "/metadata/labels", pod.Labels},
		{"add", "/metadata/annotations", pod.Annotations},
		{"add", "/spec/schedulerName", pod.Spec.SchedulerName},
		{"add", "/spec/priorityClassName", pod.Spec.PriorityClassName},
		{"add", "/spec/priority", pod.Spec.Priority},
		{"add", "/spec/preemptionPolicy", pod.Spec.PreemptionPolicy},
	}}, nil
}

// workloads warns about the pods of a workload, whose author does not see the warnings issued when the pods are
// created.
func (s *Server) workloads(_ context.Context, r *admissionv1.AdmissionRequest) (answer, error) {
	template, err := templateOf(r)
	if template == nil || err != nil {
		return answer{}, err
	}
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = r.Namespace, r.Name
	pod.Spec = translate.AsCreated(&pod.Spec, nil)
	warnings := fargate.Admit(s.o.Profiles(), pod, s.o.Able()).Warnings
	if r.Operation == admissionv1.Update {
		old := *r
		old.Object = r.OldObject
		before, err := templateOf(&old)
		if err != nil {
			return answer{}, err
		}
		if lost := lostAnnotations(before.Annotations, template.Annotations); lost != "" {
			warnings = append(warnings, lost)
		}
	}
	return answer{warnings: warnings}, nil
}

// lostAnnotations returns a warning if a change removes the annotation that keeps pods off Fargate along with all
// others, as a widespread JSON patch for CoreDNS does: the operation remove takes no value (RFC 6902, section 4.2).
func lostAnnotations(old, now map[string]string) string {
	if old[fargate.ComputeType] == "" || len(old) == 1 || len(now) > 0 {
		return ""
	}
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(old)), func(key string) bool { return key == fargate.ComputeType })
	return fmt.Sprintf("This removes all annotations of the pods, %s too: the operation remove of a JSON patch ignores "+
		"value; to remove one annotation, its path is /spec/template/metadata/annotations/%s",
		strings.Join(others, ", "), strings.ReplaceAll(fargate.ComputeType, "/", "~1"))
}

// templateOf returns the pod template of a workload, nil for other kinds.
func templateOf(r *admissionv1.AdmissionRequest) (*corev1.PodTemplateSpec, error) {
	switch r.Kind.Kind {
	case "Deployment":
		var w appsv1.Deployment
		return &w.Spec.Template, read(r, &w)
	case "StatefulSet":
		var w appsv1.StatefulSet
		return &w.Spec.Template, read(r, &w)
	case "Job":
		var w batchv1.Job
		return &w.Spec.Template, read(r, &w)
	case "CronJob":
		var w batchv1.CronJob
		return &w.Spec.JobTemplate.Spec.Template, read(r, &w)
	}
	return nil, nil
}

// profiles warns about profiles that select more than their author may expect. The API server itself validates
// profiles against the CRD.
func (s *Server) profiles(_ context.Context, r *admissionv1.AdmissionRequest) (answer, error) {
	var p v1alpha1.FargateProfile
	if err := read(r, &p); err != nil {
		return answer{}, err
	}
	a := answer{warnings: fargate.Advise(&p.Spec)}
	if r.Operation == admissionv1.Create && len(s.o.Profiles()) >= profilesOfEKS {
		a.warnings = append(a.warnings,
			fmt.Sprintf("EKS allows %d Fargate profiles in a cluster; here there is no such limit", profilesOfEKS))
	}
	return a, nil
}

// profilesOfEKS is the maximum number of Fargate profiles in an EKS cluster (service quotas).
const profilesOfEKS = 10

// pools warns about requirements that restrict nothing, which are accepted, as in Karpenter.
func (s *Server) pools(_ context.Context, r *admissionv1.AdmissionRequest) (answer, error) {
	var pool karpv1.NodePool
	if err := read(r, &pool); err != nil {
		return answer{}, err
	}
	var a answer
	for _, u := range translate.UnknownKeys(&pool) {
		a.warnings = append(a.warnings, u.String())
	}
	return a, nil
}

// awsLogging refuses a ConfigMap aws-logging that would disable logging for every new pod.
func (s *Server) awsLogging(_ context.Context, r *admissionv1.AdmissionRequest) (answer, error) {
	var c corev1.ConfigMap
	if err := read(r, &c); err != nil {
		return answer{}, err
	}
	if _, err := fargate.ParseLogging(c.Data); err != nil {
		return answer{refusal: fmt.Sprintf("ConfigMap %s/%s: %v; with it logging would be disabled for new pods",
			r.Namespace, r.Name, err)}, nil
	}
	c.ObjectMeta = metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   r.Namespace,
		Labels: map[string]string{fargate.LoggingLabel: "enabled"},
	}}
	state, p := pipeline.State(&v1alpha1.FargateProfileSpec{}, namespace, &c, s.o.Able())
	if p == nil || len(p.Elsewhere) > 0 {
		return answer{warnings: []string{state.Message}}, nil
	}
	return answer{}, nil
}
