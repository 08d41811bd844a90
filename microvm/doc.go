// Package microvm runs pods in microVMs: one virtual machine per pod, with no node to manage. A FargateProfile
// (package api/v1alpha1) selects pods by namespace and labels; each selected pod gets a Node of its own, as on EKS
// Fargate. This package holds what the packages below it share: the Host interface between scheduler and hosts, and
// the names of Nodes.
//
// # Parts
//
// The packages on the cluster's side run in the controller:
//
//   - fargate: the rules, as pure functions: which profile selects a pod, how large its microVM is, why a pod is
//     refused
//   - scheduler: assigns pods to hosts, keeps their Nodes and statuses, and is the cloud.Provider of their NodeClaims
//   - remote: the controller's view of hosts that have joined the cluster, through MicroVMHost and MicroVM objects
//
// The packages on the host's side run next to the virtual machines, in "nodeless up" or "nodeless host":
//
//   - agent: represents a host that has joined, through the same objects
//   - host: implements Host: brings up microVMs, restarts them, reports their pods
//   - podspec: translates a pod for the guest, and the guest's report into a pod status
//   - image: pulls images and converts them to read-only disks
//   - sandbox, vmm: one microVM with its network, disks and logs; the driver of its virtual machine monitor
//   - network: the addresses of pods, Services and cluster DNS; the overlay between hosts
//   - kubelet, metricsapi: the kubelet API of each Node (kubectl logs, exec, attach, port-forward), and metrics.k8s.io
//   - logs: routes container logs as configured by the ConfigMap aws-logging
//   - guest, wire: the program that runs containers inside the guest, and the protocol it speaks with the host
//
// # How a pod starts
//
//  1. The admission webhook asks fargate.Admit which profile selects a new pod, and assigns the pod to
//     "fargate-scheduler".
//  2. The scheduler computes the pod's size, chooses a host with room and creates a NodeClaim for the pod.
//  3. The controller launches the NodeClaim, which calls Host.Start: the host reserves an address and starts pulling
//     images.
//  4. The scheduler creates the Node with this address; the controller registers it, and the scheduler binds the pod.
//  5. The host boots the guest and starts the containers. The scheduler writes each change of Host.Status to the pod.
//  6. When the pod is deleted, Host.Stop ends its containers. The scheduler then removes the pod, and the controller
//     terminates the NodeClaim, which calls Host.Remove.
//
// The scheduler and the hosts survive each other's restarts: a microVM keeps running while either process is down,
// and each process resumes from the API server and the host's state directory.
package microvm
