// Package microvm runs pods in microVMs: virtual machines of one pod each, without a node that anybody manages. A
// FargateProfile (package api/v1alpha1) selects pods by namespace and labels; each selected pod becomes its own Node,
// as on EKS Fargate. This package holds what the parts share: the Host interface between scheduler and hosts, and the
// names of Nodes.
//
// # Parts
//
// The packages on the cluster's side run in the controller:
//
//   - fargate: the rules, as pure functions: which profile selects a pod, how large its microVM is, why a pod is
//     refused
//   - scheduler: assigns pods to hosts, keeps their Nodes and statuses, and is the cloud.Provider of their NodeClaims
//   - remote: hosts that have joined the cluster, seen from the controller, through MicroVMHost and MicroVM objects
//
// The packages on the host's side run next to the virtual machines, in "nodeless up" or "nodeless host":
//
//   - agent: speaks for a host that has joined, through the same objects
//   - host: implements Host: brings up microVMs, restarts them, reports their pods
//   - podspec: translates a pod for the guest, and the guest's account into a pod status
//   - image: pulls images and converts them to read-only disks
//   - sandbox, vmm: one microVM with its network, disks and logs; the driver of its virtual machine monitor
//   - network: the addresses of pods, Services and cluster DNS; the overlay between hosts
//   - kubelet, metricsapi: the kubelet API of each Node (kubectl logs, exec, attach, port-forward), and metrics.k8s.io
//   - logs: routes container logs as the ConfigMap aws-logging says
//   - guest, wire: the program that runs containers inside the guest, and the protocol it speaks with the host
//
// # How a pod comes to run
//
//  1. The admission webhook asks fargate.Admit which profile selects a new pod, and assigns the pod to
//     "fargate-scheduler".
//  2. The scheduler computes the pod's size, chooses a host with room and creates a NodeClaim for the pod.
//  3. The controller launches the NodeClaim, which calls Host.Start: the host reserves an address and begins to pull
//     images.
//  4. The scheduler creates the Node with this address; the controller registers it, and the scheduler binds the pod.
//  5. The host boots the guest and starts the containers. The scheduler writes each change of Host.Status to the pod.
//  6. When the pod is deleted, Host.Stop ends its containers. The scheduler then removes the pod, and the controller
//     terminates the NodeClaim, which calls Host.Remove.
//
// Neither side depends on the life of the other's process: a microVM keeps running while scheduler or host are down,
// and each of them resumes from the API server and from the host's state directory.
package microvm
