package nodesim

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// tellClaim puts on a machine's NodeClaim why the machine joins no cluster. On AWS only the console output of the
// instance would.
func (s *Simulator) tellClaim(ctx context.Context, m *Machine, cause error) error {
	if m.Claim == "" {
		return nil
	}
	raw, err := s.client.CoreV1().RESTClient().Get().AbsPath("/apis/karpenter.sh/v1/nodeclaims/"+m.Claim).
		SetHeader("Accept", "application/json").DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return nil
	}
	var claim metav1.PartialObjectMetadata
	if err == nil {
		err = json.Unmarshal(raw, &claim)
	}
	if err != nil {
		return fmt.Errorf("tell NodeClaim %s that its machine joins no cluster: %w", m.Claim, err)
	}
	about := &corev1.ObjectReference{APIVersion: claim.APIVersion, Kind: claim.Kind, Name: claim.Name, UID: claim.UID}
	s.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "simulated-instance", Host: m.Name}).
		Eventf(about, corev1.EventTypeWarning, "NodeNotJoining", "Instance %s has booted and joins no cluster: %v", m.ID,
			cause)
	return nil
}
