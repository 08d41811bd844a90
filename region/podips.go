package region

import "net/netip"

// AssignPodIP takes an address for a pod out of its machine's subnet, within what the type's interfaces can hold. Asked
// again for the same pod it gives the same address.
func (r *Region) AssignPodIP(instanceID, podUID string) (netip.Addr, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, ok := r.podIPs[podUID]; ok && p.InstanceID == instanceID {
		return p.IP, nil
	}
	i := r.instances[instanceID]
	if i == nil || !i.active() {
		return netip.Addr{}, apiError("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist or is ending", instanceID)
	}
	if most := r.podAddresses(i); len(r.pods[instanceID]) >= most {
		return netip.Addr{}, apiError("PrivateIpAddressLimitExceeded", "The network interfaces of instance %s hold %d pod addresses, and all are taken", instanceID, most)
	}
	ip, ok := r.takeAddress(i.SubnetID)
	if !ok {
		return netip.Addr{}, apiError("InsufficientFreeAddressesInSubnet", "There are not enough free addresses in subnet '%s'.", i.SubnetID)
	}
	p := PodAddress{InstanceID: instanceID, SubnetID: i.SubnetID, IP: ip}
	r.releasePod(podUID) // of another machine: the pod's name for an address is taken anew
	r.podIPs[podUID] = p
	r.holdPod(podUID, instanceID)
	r.store.put(bucketPods, podUID, p)
	return ip, r.commit()
}

// podAddresses is how many addresses for pods an instance can hold: as many as its node takes pods (catalog.MaxPods), but for aws-node and kube-proxy, which
// have the node's own address. Types of one's own have an address for every pod.
func (r *Region) podAddresses(i *Instance) int {
	t := r.Type(i.Type)
	switch {
	case t == nil:
		return 0
	case t.Pods > 0:
		return t.Pods
	}
	return t.MaxENIs * (t.IPv4PerENI - 1)
}

// ReleasePodIP gives a pod's address back; unknown pods are ignored.
func (r *Region) ReleasePodIP(podUID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.releasePod(podUID)
	if err := r.commit(); err != nil {
		r.log.Error("region: state not saved", "pod", podUID, "error", err)
	}
}

// PodAddresses are the addresses pods hold, by pod UID.
func (r *Region) PodAddresses() map[string]PodAddress {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string]PodAddress, len(r.podIPs))
	for uid, p := range r.podIPs {
		out[uid] = p
	}
	return out
}

func (r *Region) releasePod(uid string) {
	p, ok := r.podIPs[uid]
	if !ok {
		return
	}
	r.freeAddress(p.SubnetID, p.IP)
	delete(r.podIPs, uid)
	if delete(r.pods[p.InstanceID], uid); len(r.pods[p.InstanceID]) == 0 {
		delete(r.pods, p.InstanceID)
	}
	r.store.remove(bucketPods, uid)
}

func (r *Region) holdPod(uid, instanceID string) {
	if r.pods[instanceID] == nil {
		r.pods[instanceID] = map[string]bool{}
	}
	r.pods[instanceID][uid] = true
}

// releasePods gives back the addresses of all pods of a machine. The caller holds the lock and commits.
func (r *Region) releasePods(instanceID string) {
	for uid := range r.pods[instanceID] {
		r.releasePod(uid)
	}
}
