package buffers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	autoscaling "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/plane/planetest"
)

func TestRoomIsKeptUntilTheBufferIsGone(t *testing.T) {
	s := tell(t)
	s.template("1")
	b := s.buffer("b", ofTemplate(2))
	before := s.machines(2)
	s.provisioned(b, 2)

	// A new controller process knows what the nodes are for: they are not empty.
	s.stop()
	s.start()
	b2 := s.buffer("other", ofTemplate(1))
	s.machines(3)
	s.provisioned(b2, 1)
	for _, name := range before {
		if !slices.Contains(s.claims(), name) {
			t.Errorf("machine %s went with the restart", name)
		}
	}

	for _, gone := range []*autoscaling.CapacityBuffer{b, b2} {
		if err := s.api.Delete(context.Background(), gone); err != nil {
			t.Fatal(err)
		}
	}
	s.machines(0)
}

func TestAConsumerTakesTheRoomAndItIsFilledUpAgain(t *testing.T) {
	s := tell(t)
	s.template("1")
	b := s.buffer("b", ofTemplate(2))
	s.machines(2)
	s.provisioned(b, 2)
	s.deployment("consumer", 1, "1")
	s.machines(3)
	s.provisioned(b, 2)
	// A small pod fits beside the placeholders: no node is launched for it, and the buffered capacity stays.
	s.deployment("small", 1, "100m")
	planetest.Eventually(t, "both consumers are bound", func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := s.api.List(ctx, pods, client.InNamespace(s.ns)); err != nil || len(pods.Items) != 2 {
			return errors.Join(err, fmt.Errorf("%d pods", len(pods.Items)))
		}
		for _, p := range pods.Items {
			if p.Spec.NodeName == "" {
				return fmt.Errorf("%s waits", p.Name)
			}
		}
		return nil
	})
	s.machines(3)
	events := &corev1.EventList{}
	if err := s.api.List(context.Background(), events, client.InNamespace(s.ns)); err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if strings.HasPrefix(e.InvolvedObject.Name, "capacity-buffer") {
			t.Errorf("an event about a pod that does not exist: %s %s", e.Reason, e.Message)
		}
	}
}

func TestABufferNeverBreaksItsPoolsLimit(t *testing.T) {
	s := tell(t, func(p *karpv1.NodePool) { p.Spec.Limits = karpv1.Limits{"cpu": resource.MustParse("4")} })
	s.template("1")
	b := s.buffer("b", ofTemplate(10))
	s.says(b, autoscaling.ProvisioningCondition, "RequiresNewCapacity", "8 failed", "limit")
	s.machines(2)
	// A pod that needs the capacity takes precedence over the placeholders; no third node is launched for it either.
	s.deployment("consumer", 1, "1")
	s.says(b, autoscaling.ProvisioningCondition, "RequiresNewCapacity", "9 failed")
	s.machines(2)
}

func TestABufferFollowsWhatItRefersTo(t *testing.T) {
	s := tell(t)
	ref := &autoscaling.ScalableRef{APIGroup: "apps", Kind: "Deployment", Name: "web"}
	b := s.buffer("b", autoscaling.CapacityBufferSpec{ScalableRef: ref, Percentage: number(20)})
	s.says(b, autoscaling.ReadyForProvisioningCondition, "ScalableRefNotFound", "spec.scalableRef.name", `"web"`,
		"create it")
	s.says(b, autoscaling.ProvisioningCondition, "NotReadyForProvisioning")
	web := s.deployment("web", 5, "100m")
	s.replicas(b, 1)
	s.provisioned(b, 1)
	update(s, web, func(d *appsv1.Deployment) { d.Spec.Replicas = number(20) })
	s.replicas(b, 4)
	s.provisioned(b, 4)
	update(s, web, func(d *appsv1.Deployment) { d.Spec.Replicas = number(0) })
	s.replicas(b, 0)
	s.says(b, autoscaling.ProvisioningCondition, "BufferEmpty", "zero desired replicas")

	template := s.template("1")
	c := s.buffer("c", ofTemplate(1))
	first := s.says(c, autoscaling.ReadyForProvisioningCondition, "Resolved")
	if first.PodTemplateRef == nil || first.PodTemplateRef.Name != "room" {
		t.Errorf("status %+v", first)
	}
	update(s, template, func(t *corev1.PodTemplate) {
		t.Template.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("8")
	})
	s.says(c, autoscaling.ProvisioningCondition, "RequiresNewCapacity", "1 failed")
	planetest.Eventually(t, "the generation moves on", func(ctx context.Context) error {
		if err := s.api.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil ||
			*c.Status.PodTemplateGeneration <= *first.PodTemplateGeneration {
			return errors.Join(err, fmt.Errorf("status %+v", c.Status))
		}
		return nil
	})
	if err := s.api.Delete(context.Background(), template); err != nil {
		t.Fatal(err)
	}
	s.says(c, autoscaling.ReadyForProvisioningCondition, "PodTemplateNotFound", "spec.podTemplateRef.name", `"room"`,
		"create it")
	s.machines(0)
}

func TestPlaceholdersKeepApartAsTheirPodsWould(t *testing.T) {
	s := tell(t)
	labels := map[string]string{"app": "apart"}
	s.template("100m", func(p *corev1.PodTemplateSpec) {
		p.Labels = labels
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: labels}, TopologyKey: corev1.LabelHostname,
		}}}}
	})
	b := s.buffer("b", ofTemplate(3))
	s.machines(3)
	s.provisioned(b, 3)
}

func TestBuffersThatComeAndGoLeaveNothingBehind(t *testing.T) {
	s := tell(t)
	s.template("1")
	for i := range 5 {
		b := s.buffer(fmt.Sprintf("rapid-%d", i), ofTemplate(2))
		if i%2 == 0 { // some are deleted before their nodes exist, some after
			s.machines(2)
		}
		if err := s.api.Delete(context.Background(), b); err != nil {
			t.Fatal(err)
		}
	}
	s.machines(0)
}

func TestWhatABufferCannotAskForIsSaidWithItsFieldAndRemedy(t *testing.T) {
	s := tell(t)
	s.template("1")
	strategy := "buffer.example.com/hope"
	for name, c := range map[string]struct {
		spec  autoscaling.CapacityBufferSpec
		words []string
	}{
		"kind": {
			autoscaling.CapacityBufferSpec{ScalableRef: &autoscaling.ScalableRef{
				APIGroup: "apps", Kind: "CronJob",
				Name: "x",
			}, Replicas: number(1)},
			[]string{"spec.scalableRef.kind", `"CronJob"`, "use Deployment, StatefulSet or ReplicaSet"},
		},
		"group": {
			autoscaling.CapacityBufferSpec{ScalableRef: &autoscaling.ScalableRef{
				APIGroup: "batch", Kind: "Job",
				Name: "x",
			}, Replicas: number(1)},
			[]string{"spec.scalableRef.apiGroup", `"batch"`, `use "apps"`},
		},
		"neither": {
			autoscaling.CapacityBufferSpec{Replicas: number(1)},
			[]string{"Neither podTemplateRef nor scalableRef is set", "set one of them"},
		},
		"strategy": {autoscaling.CapacityBufferSpec{
			PodTemplateRef: &autoscaling.LocalObjectRef{Name: "room"},
			Replicas:       number(1), ProvisioningStrategy: &strategy,
		}, []string{"spec.provisioningStrategy", strategy, "use"}},
	} {
		b := s.buffer(name, c.spec)
		s.says(b, autoscaling.ReadyForProvisioningCondition, "ResolutionFailed", c.words...)
		s.says(b, autoscaling.ProvisioningCondition, "NotReadyForProvisioning")
	}
	for name, c := range map[string]struct {
		spec autoscaling.CapacityBufferSpec
		want string
	}{
		"both": {
			autoscaling.CapacityBufferSpec{
				PodTemplateRef: &autoscaling.LocalObjectRef{Name: "room"},
				ScalableRef:    &autoscaling.ScalableRef{Kind: "Deployment", Name: "x"}, Replicas: number(1),
			},
			"either PodTemplateRef or ScalableRef",
		},
		"nothing": {
			autoscaling.CapacityBufferSpec{PodTemplateRef: &autoscaling.LocalObjectRef{Name: "room"}},
			"replicas or limits must also be set",
		},
		"percent": {autoscaling.CapacityBufferSpec{
			ScalableRef: &autoscaling.ScalableRef{Kind: "Deployment", Name: "x"},
			Percentage:  number(-1),
		}, "spec.percentage"},
	} {
		err := s.api.Create(context.Background(),
			&autoscaling.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.ns}, Spec: c.spec})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	s.machines(0)
}
