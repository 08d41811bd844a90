package nodesim_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/region/nodesim"
)

// windowsIPAM writes the VPC CNI's setting that gives addresses to Windows pods.
func (s *story) windowsIPAM(value string) {
	s.Helper()
	maps := s.api.CoreV1().ConfigMaps("kube-system")
	c := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "amazon-vpc-cni"}, Data: map[string]string{"enable-windows-ipam": value},
	}
	_, err := maps.Create(s.Context(), c, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = maps.Update(s.Context(), c, metav1.UpdateOptions{})
	}
	if err != nil {
		s.Fatal(err)
	}
}

// A Windows node offers addresses while the VPC CNI is set to provide them, and its pods run if they request one.
// Pods for another system are rejected.
func TestANodeOfWindowsOffersAddresses(t *testing.T) {
	s := tell(t)
	t.Cleanup(func() {
		_ = s.api.CoreV1().ConfigMaps("kube-system").Delete(context.Background(), "amazon-vpc-cni", metav1.DeleteOptions{})
	})
	m := instance("windows")
	m.Windows, m.UserData = "2019", []byte("<powershell>\nStart-EKSBootstrap.ps1 -EKSClusterName c\n</powershell>")
	s.hall <- nodesim.Event{Kind: nodesim.Booted, Instance: m}
	offers := func(want int64) {
		t.Helper()
		s.node("windows", func(n *corev1.Node) error {
			for _, list := range []corev1.ResourceList{n.Status.Capacity, n.Status.Allocatable} {
				if q, there := list["vpc.amazonaws.com/PrivateIPv4Address"]; q.Value() != want || there != (want > 0) {
					return fmt.Errorf("it offers %v", list)
				}
			}
			return nil
		})
	}
	s.node("windows", ready(corev1.ConditionTrue))
	offers(0)
	s.windowsIPAM("true")
	offers(9)
	s.told(s.pod("windows", corev1.PodPending, func(*corev1.Pod) {}), "FailedCreatePodSandBox",
		"does not have label vpc.amazonaws.com/PrivateIPv4Address")
	one := corev1.ResourceList{"vpc.amazonaws.com/PrivateIPv4Address": resource.MustParse("1")}
	s.pod("windows", corev1.PodRunning, func(p *corev1.Pod) {
		p.Spec.OS = &corev1.PodOS{Name: corev1.Windows}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: one, Limits: one}
	})
	s.told(s.pod("windows", corev1.PodFailed, func(p *corev1.Pod) {
		p.Spec.OS = &corev1.PodOS{Name: corev1.Linux}
	}), "PodOSNotSupported", "doesn't match node OS")
	s.windowsIPAM("false")
	offers(0)
}
