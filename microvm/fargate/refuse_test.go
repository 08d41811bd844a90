package fargate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
)

// objects maps names of claims to the volumes they are bound to, and names of volumes to their drivers.
type objects struct{ claims, drivers map[string]string }

func (o objects) Claim(_, name string) *corev1.PersistentVolumeClaim {
	volume, ok := o.claims[name]
	if !ok {
		return nil
	}
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if c.Spec.VolumeName, c.Status.Phase = volume, corev1.ClaimPending; volume != "" {
		c.Status.Phase = corev1.ClaimBound
	}
	return c
}

func (o objects) Volume(name string) *corev1.PersistentVolume {
	driver, ok := o.drivers[name]
	if !ok {
		return nil
	}
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if driver != "" {
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver}
	}
	return v
}

func privileged(c *corev1.Container) {
	yes := true
	c.SecurityContext = &corev1.SecurityContext{Privileged: &yes}
}

func adding(capabilities ...corev1.Capability) func(*corev1.Container) {
	return func(c *corev1.Container) {
		c.SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{
			Add:  capabilities,
			Drop: []corev1.Capability{"ALL"},
		}}
	}
}

func volume(name string, source corev1.VolumeSource) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: source}
}

func claimed(name, claim string) corev1.Volume {
	return volume(name, corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}})
}

// evil is the test pod of the articles (reference, section 1.4): everything at once.
func evil() *corev1.Pod {
	p := pod("n", "")
	privileged(&p.Spec.Containers[0])
	p.Spec.HostNetwork, p.Spec.HostPID, p.Spec.HostIPC = true, true, true
	p.Spec.Volumes = []corev1.Volume{volume("host",
		corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}})}
	return p
}

func TestRefusals(t *testing.T) {
	const unsupported = "Pod not supported on Fargate: "
	change := func(f func(*corev1.Pod)) *corev1.Pod {
		p := pod("n", "", "")
		f(p)
		return p
	}
	storage := objects{
		claims: map[string]string{
			"waits": "", "ebs": "pvc-1", "efs": "pvc-2", "local": "pvc-3", "dangling": "pvc-4",
			"p-scratch": "",
		},
		drivers: map[string]string{"pvc-1": "ebs.csi.aws.com", "pvc-2": "efs.csi.aws.com", "pvc-3": ""},
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"nothing wrong": {pod("n", "cpu=1"), ""},
		"host network": {
			change(func(p *corev1.Pod) { p.Spec.HostNetwork = true }),
			unsupported + "fields not supported: HostNetwork",
		},
		"the pod that wants everything": {
			evil(),
			unsupported + "fields not supported: HostNetwork, HostPID, HostIPC, invalid SecurityContext fields: Privileged, volumes not supported: host is of an unsupported volume Type",
		},
		"three kinds of parts [seen]": {change(func(p *corev1.Pod) {
			p.Spec.HostNetwork = true
			privileged(&p.Spec.Containers[0])
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
		}), unsupported + "fields not supported: HostNetwork, invalid SecurityContext fields: Privileged, port contains HostIP or HostPort"},
		"two privileged containers": {
			change(func(p *corev1.Pod) {
				privileged(&p.Spec.Containers[0])
				privileged(
					&p.Spec.Containers[1])
			}),
			unsupported + "invalid SecurityContext fields: Privileged,Privileged",
		},
		"an init container counts": {change(func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "i"}}
			privileged(&p.Spec.InitContainers[0])
		}), unsupported + "invalid SecurityContext fields: Privileged"},
		"a capability written the wrong way [frappe]": {
			change(func(p *corev1.Pod) {
				adding(
					"CAP_CHOWN")(&p.Spec.Containers[0])
			}),
			unsupported + "invalid SecurityContext fields: Capabilities added: CAP_CHOWN",
		},
		"a capability beyond the usual": {
			change(func(p *corev1.Pod) {
				adding("NET_BIND_SERVICE",
					"SYS_ADMIN")(&p.Spec.Containers[0])
			}),
			unsupported + "invalid SecurityContext fields: Capabilities added: SYS_ADMIN",
		},
		"CoreDNS adds what containers have": {change(func(p *corev1.Pod) {
			adding(
				"NET_BIND_SERVICE")(&p.Spec.Containers[0])
		}), ""},
		"escalation is no longer refused": {change(func(p *corev1.Pod) {
			yes := true
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: &yes}
		}), ""},
		"a host address": {change(func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostIP: "10.0.0.1"}}
		}), unsupported + "port contains HostIP or HostPort"},
		"a host directory": {
			change(func(p *corev1.Pod) { p.Spec.Volumes = evil().Spec.Volumes }),
			unsupported + "volumes not supported: host is of an unsupported volume Type",
		},
		"volumes that are fine": {change(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{
				volume("a", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
				volume("b", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}),
				volume("c", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}),
				volume("d", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}),
				volume("e", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{}}), claimed("f", "efs"),
			}
		}), ""},
		"a claim that waits": {change(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{claimed("data",
				"waits")}
		}), unsupported + "volumes not supported: data not supported because: PVC waits not bound"},
		"a claim that does not exist": {change(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{claimed("data",
				"none")}
		}), unsupported + "volumes not supported: data not supported because: PVC none not bound"},
		"a generic ephemeral volume": {change(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{volume("scratch", corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}})}
		}), unsupported + "volumes not supported: scratch not supported because: PVC p-scratch not bound"},
		"two claims": {
			change(func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{claimed("data", "waits"), claimed("more", "ebs")}
			}),
			unsupported + "volumes not supported: data not supported because: PVC waits not bound, more not supported because: PVC ebs bound to invalid PV pvc-1 with CSI Driver: ebs.csi.aws.com",
		},
		"a disk of the node": {
			change(func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{claimed("data", "local")} }),
			unsupported + "volumes not supported: data not supported because: PVC local bound to invalid PV pvc-3 without CSI Driver",
		},
		"a volume that is gone": {
			change(func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{claimed("data",
					"dangling")}
			}),
			unsupported + "volumes not supported: data not supported because: PVC dangling bound to PV pvc-4, which does not exist",
		},
		"a GPU": {
			pod("n", "nvidia.com/gpu=1 limits.nvidia.com/gpu=1"),
			unsupported + "resources not supported: nvidia.com/gpu",
		},
		"huge pages of the whole pod": {
			change(func(p *corev1.Pod) {
				p.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{
					"hugepages-2Mi": resource.MustParse("2Mi"), corev1.ResourceMemory: resource.MustParse("1Gi"),
				}}
			}),
			unsupported + "resources not supported: hugepages-2Mi",
		},
		"mounts that reach the node": {
			change(func(p *corev1.Pod) {
				both := corev1.MountPropagationBidirectional
				p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{MountPropagation: &both}}
			}),
			unsupported + "fields not supported: MountPropagation",
		},
		"mounts that stay": {
			change(func(p *corev1.Pod) {
				none := corev1.MountPropagationNone
				p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{MountPropagation: &none}, {}}
			}), "",
		},
		"sources of a projected volume": {change(func(p *corev1.Pod) {
			trust := corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{}}
			certificate := corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{}}
			token := corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}
			projected := func(name string, sources ...corev1.VolumeProjection) corev1.Volume {
				return volume(name, corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}})
			}
			p.Spec.Volumes = []corev1.Volume{projected("a", token), projected("b", token, trust), projected("c", certificate)}
		}), unsupported + "volumes not supported: b not supported because: microVMs cannot mount its source clusterTrustBundle, " +
			"c not supported because: microVMs cannot mount its source podCertificate"},
		"Windows": {
			change(func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }),
			unsupported + "fields not supported: OS windows",
		},
		"user namespaces": {
			change(func(p *corev1.Pod) { p.Spec.HostUsers = new(bool) }),
			unsupported + "fields not supported: HostUsers",
		},
		"more than the disk": {
			pod("n", "ephemeral-storage=176Gi"),
			"Pod not supported on Fargate: ephemeral storage requests of 188978561024 bytes exceed the 175Gi that a pod may have",
		},
		"too large": {pod("n", "cpu=17"), "Your pod's cpu/memory requirements exceed the max Fargate configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			able := DefaultAbilities()
			able.Volumes = append(able.Volumes, EFS, NFS)
			got := Refuse(&profile("p", "n").Spec, c.pod, storage, able)
			if got.Message != c.want {
				t.Errorf("got  %q\nwant %q", got.Message, c.want)
			}
			reason := map[bool]string{true: ReasonTooLarge, false: ReasonUnsupported}[got.Message == tooLarge]
			if got.Message != "" && got.Reason != reason {
				t.Errorf("reason %s, want %s", got.Reason, reason)
			}
		})
	}
}

func TestWhatAMicroVMCanDoIsAllowedUnderExact(t *testing.T) {
	spec := exact(profile("p", "n")).Spec
	able := DefaultAbilities()
	p := evil()
	p.Spec.Volumes = nil
	if got := Refuse(&spec, p, objects{}, able); got != (Refusal{}) {
		t.Errorf("refused: %v", got)
	}
	if got, want := Refuse(&spec, evil(), objects{}, able).Message,
		"Pod not supported on a microVM: volumes not supported: host is of an unsupported volume Type"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	ports := pod("n", "")
	ports.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}, {ContainerPort: 81}}
	if got := Refuse(&spec, ports, objects{}, able); got != (Refusal{}) {
		t.Errorf("a port of the node: refused: %v", got)
	}
	ports.Spec.Containers[0].Ports[0].HostPort = 8080
	if got, want := Refuse(&spec, ports, objects{}, able).Message,
		"Pod not supported on a microVM: port contains HostPort other than ContainerPort"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	able.Volumes = append(able.Volumes, HostPath)
	if got := Refuse(&spec, evil(), objects{}, able); got != (Refusal{}) {
		t.Errorf("with directories of the guest: refused: %v", got)
	}
	spec.Restrictions = v1alpha1.RestrictionsFargate
	if got := Refuse(&spec, evil(), objects{}, able); got.Reason != ReasonUnsupported {
		t.Errorf("the profile forbids it, got %v", got)
	}
	mounts := pod("n", "")
	mounts.Spec.Volumes = []corev1.Volume{claimed("data", "efs")}
	bound := objects{claims: map[string]string{"efs": "pv"}, drivers: map[string]string{"pv": EFS}}
	want := "Pod not supported on Fargate: volumes not supported: data not supported because: PVC efs bound to PV pv with CSI Driver: efs.csi.aws.com, which the microVMs here cannot mount"
	if got := Refuse(&spec, mounts, bound, able).Message; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestForbiddenSysctls(t *testing.T) {
	for name, want := range map[string]string{
		"net.ipv4.tcp_syncookies": "", "net/ipv4/tcp_syncookies": "", "kernel.msgmax": "kernel.msgmax", "fs.mount-max": "fs.mount-max",
	} {
		p := pod("n", "")
		p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{
			{Name: "kernel.shm_rmid_forced", Value: "1"}, {Name: name, Value: "1"},
		}}
		if got := forbiddenSysctl(p); got != want {
			t.Errorf("with %s: %q, want %q", name, got, want)
		}
	}
	if got := forbiddenSysctl(pod("n", "")); got != "" {
		t.Errorf("without any: %q", got)
	}
}

// A kubelet rejects profiles of AppArmor where the kernel does not have it.
func TestRejections(t *testing.T) {
	profile := func(t corev1.AppArmorProfileType) *corev1.AppArmorProfile { return &corev1.AppArmorProfile{Type: t} }
	for _, c := range []struct {
		pod, container *corev1.AppArmorProfile
		want           string
	}{
		{nil, nil, ""},
		{profile(corev1.AppArmorProfileTypeUnconfined), profile(corev1.AppArmorProfileTypeUnconfined), ""},
		{profile(corev1.AppArmorProfileTypeRuntimeDefault), nil, "AppArmor"},
		{nil, profile(corev1.AppArmorProfileTypeLocalhost), "AppArmor"},
	} {
		p := pod("n", "")
		p.Spec.SecurityContext = &corev1.PodSecurityContext{AppArmorProfile: c.pod}
		p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{AppArmorProfile: c.container}
		if reason, message := Rejection(p); reason != c.want || (message == "") != (c.want == "") {
			t.Errorf("%v, %v: %s: %s", c.pod, c.container, reason, message)
		}
		p.Spec.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "kernel.msgmax"}}
		if reason, message := Rejection(p); reason != "SysctlForbidden" ||
			message != `forbidden sysctl: "kernel.msgmax" not allowlisted` {
			t.Errorf("%s: %s", reason, message)
		}
	}
}
