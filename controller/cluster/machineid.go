package cluster

import (
	"strings"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// machineIDOf is the cloud's ID in a provider ID: its last part.
func machineIDOf(providerID string) string { return providerID[strings.LastIndex(providerID, "/")+1:] }

// nameMachine notes by which of its cloud's IDs a claim's machine is known; providerID is "" for a claim that is gone.
func (ms *machines) nameMachine(before, providerID string) {
	if before != providerID && before != "" && len(ms.claimsOf[before]) == 0 {
		delete(ms.byMachine, machineIDOf(before))
	}
	if providerID != "" {
		ms.byMachine[machineIDOf(providerID)] = providerID
	}
}

// ClaimByMachineID is the NodeClaim of the machine that its cloud calls so, such as i-0123456789abcdef0; nil if there is
// none.
func (w *World) ClaimByMachineID(id string) *karpv1.NodeClaim {
	w.mu.Lock()
	providerID := w.machines.byMachine[id]
	w.mu.Unlock()
	if providerID == "" {
		return nil
	}
	return w.ClaimByProviderID(providerID)
}
