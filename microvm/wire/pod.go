package wire

import (
	"fmt"
	"strings"
	"time"
)

// Pod is everything that a guest needs to run a pod. The host has already resolved names, references and images.
type Pod struct {
	// ID is the VM's ID, chosen by the host. A host that adopts the VM requests it with Hello.
	ID       string
	Hostname string
	// UnixNano, Entropy and MachineID make a guest that was restored from a template different from all others.
	UnixNano  int64
	Entropy   []byte
	MachineID string
	Network   Network
	// Disks are the serials of root disks. Each is an ext4 file system, mounted read-only under writable layers.
	Disks []string
	// Scratch is the serial of an ext4 disk for writable layers and emptyDirs; "" keeps them in memory.
	Scratch string
	Volumes []Volume
	// Containers in the order of the pod: first those of kind Init and Sidecar, then the regular ones.
	Containers            []Container
	RestartPolicy         RestartPolicy
	Backoff               Backoff
	GracePeriod           time.Duration
	FSGroup               *int64
	ShareProcessNamespace bool
	HostPID               bool // the containers see the guest's processes
	Sysctls               map[string]string
	// Limits are those of all containers together: of memory and CPU.
	Limits Limits
}

// KernelHostname returns the host name of the kernel, which is also in /etc/hostname.
func (p Pod) KernelHostname() string {
	if p.Network.FQDN && p.Network.Domain != "" {
		return p.Hostname + "." + p.Network.Domain
	}
	return p.Hostname
}

const maxKernelHostname = 64 // bytes (uname(2))

// CheckHostname returns an error, in a kubelet's words (pkg/kubelet/util, Kubernetes 1.36), if the kernel refuses the
// host name.
func (p Pod) CheckHostname() error {
	if name := p.KernelHostname(); len(name) > maxKernelHostname {
		return fmt.Errorf("failed to construct FQDN from pod hostname and cluster domain, FQDN %s is too long "+
			"(%d characters is the max, %d characters requested)", name, maxKernelHostname, len(name))
	}
	return nil
}

// Backoff is the delay between restarts: Initial, doubled with each restart up to Max, and Initial again after a run
// of Reset. A kubelet's values are 10s, 5m and 10m.
type Backoff struct{ Initial, Max, Reset time.Duration }

// RestartPolicy is a pod's restart policy.
type RestartPolicy string

// Restart policies, as in Kubernetes.
const (
	RestartAlways    RestartPolicy = "Always"
	RestartOnFailure RestartPolicy = "OnFailure"
	RestartNever     RestartPolicy = "Never"
)

// EnvFile is a value that the guest reads from a file of a volume before each run. It replaces Mark in Args and Env,
// and becomes the value of a variable.
type EnvFile struct {
	Name              string // of the variable; "" if a later one has replaced it
	Mark              string
	Volume, Path, Key string
	// Optional leaves the variable in Env as it is if there is no value. Otherwise, which may have earlier marks, then
	// replaces Mark.
	Optional  bool
	Otherwise string
}

// RestartRule says that a container which ends with one of the Codes, or with any other if Except is set, runs again.
// If All is set, so do all of the pod's containers, init containers included.
type RestartRule struct {
	Codes       []int
	Except, All bool
}

// Network of the guest. Without an Address the guest has only a loopback interface.
type Network struct {
	MAC         string
	Address     string // CIDR, like 10.0.2.15/24; with 32 bits all destinations are behind the gateway
	Gateway     string
	MTU         int
	Nameservers []string
	Searches    []string
	Options     []string
	Hosts       []HostAlias
	Domain      string // of the host name, like web.shop.svc.cluster.local; "" if it has none
	// FQDN makes the kernel's host name include the Domain.
	FQDN bool
}

// HostAlias is a line of /etc/hosts.
type HostAlias struct {
	IP    string
	Names []string
}

// Volume is a directory that containers mount. It is an emptyDir unless it is Projected.
type Volume struct {
	Name      string
	Memory    bool  // on a tmpfs
	SizeLimit int64 // bytes; enforced on a tmpfs
	Files     []File
	Projected bool   // contains Files, possibly none, which an update replaces atomically
	Disk      string // serial of the root disk that the volume is, mounted read-only and noexec; "" for others
}

// File of a configMap, secret, projected or downwardAPI volume.
type File struct {
	Path string // relative, clean
	Mode uint32
	UID  *int64
	Data []byte
}

// ContainerKind says when a container runs.
type ContainerKind string

// Kinds of containers.
const (
	KindInit ContainerKind = "Init" // to completion, one after the other, before the regular ones
	// KindSidecar is started in the order of the init containers, and runs until the regular ones have ended.
	KindSidecar ContainerKind = "Sidecar"
	KindRegular ContainerKind = "Regular"
	// KindEphemeral is added while the pod runs, runs once and does not keep the pod alive.
	KindEphemeral ContainerKind = "Ephemeral"
)

// Container of a pod.
type Container struct {
	Name            string
	Kind            ContainerKind
	Target          string // of an ephemeral one: the container whose processes it sees; "" for none
	Disk            string // serial of its root disk
	Args            []string
	Env             []string // NAME=value
	EnvFiles        []EnvFile
	WorkingDir      string
	User            User
	Capabilities    []string // like CHOWN; of the bounding set
	Privileged      bool
	NoNewPrivileges bool
	Seccomp         []byte // filter of system calls, an array of the guest's struct sock_filter; nil for none
	ReadOnlyRoot    bool
	Limits
	// RestartRules decide before RestartPolicy, the container's own, which overrides the pod's unless it is "".
	RestartRules   []RestartRule
	RestartPolicy  RestartPolicy
	Mounts         []Mount
	TTY            bool
	Stdin          bool
	StdinOnce      bool
	StartupProbe   *Probe
	LivenessProbe  *Probe
	ReadinessProbe *Probe
	PostStart      *Action
	PreStop        *Action
	StopSignal     int // 0: SIGTERM
	// TerminationMessagePath is a file in the container; FallbackToLogs takes the end of the log when it is empty and
	// the container failed.
	TerminationMessagePath string
	FallbackToLogs         bool
	// Earlier is the container's history in the pod's earlier VMs, which ended while the pod ran; nil if there were
	// none.
	Earlier *Earlier
	// Held is set if the container cannot run yet. Then only what its pod alone determines is valid, and the host
	// supplies the rest.
	Held *Held
}

// Held is the state of a container that waits for its host: a kubelet's reason, such as CreateContainerConfigError or
// ErrImagePull, and its cause.
type Held struct{ Reason, Message string }

// Capabilities are those of linux/capability.h in the order of their numbers, without CAP_.
var Capabilities = strings.Fields(`CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP
	LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT
	SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE
	AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF
	CHECKPOINT_RESTORE`)

// Limits are a container's resource limits and its weights relative to the other containers of its pod.
type Limits struct {
	MemoryBytes   int64 // limit; 0: the guest's memory
	CPUMilli      int64 // limit; 0: the guest's CPUs
	CPUShareMilli int64 // request, the weight among containers
	OOMScoreAdj   int   // as in /proc/PID/oom_score_adj
}

// Earlier is the history of a container in earlier VMs of its pod.
type Earlier struct {
	Runs     int   // number of runs
	LastExit *Exit // of its last run; nil if it has not run
	Over     bool  // it has ended and is not run again
}

// Status returns the container's known status until its new VM reports one.
func (e Earlier) Status(name string) ContainerStatus {
	s := ContainerStatus{Name: name, State: Waiting, Restarts: max(0, e.Runs-1), LastExit: e.LastExit}
	if e.Over {
		s.State, s.Exit, s.LastExit = Terminated, e.LastExit, nil
	}
	return s
}

// User is the user that a container runs as. The host has resolved names from the image.
type User struct {
	UID, GID int64
	Groups   []int64 // supplementary
}

// Mount of a volume into a container.
type Mount struct {
	Volume   string
	Disk     string // serial of the image volume's disk; "" for other volumes
	Path     string // in the container
	SubPath  string // in the volume
	ReadOnly bool
	// Recursive makes a ReadOnly mount include what is mounted below.
	Recursive bool
}

// Action is one of these: a command in the container, an HTTP request, a TCP connection, a gRPC health check, a pause.
type Action struct {
	Exec  []string
	HTTP  *HTTPGet
	TCP   *TCPSocket
	GRPC  *GRPCHealth
	Sleep time.Duration
	// Invalid is why none of them can be performed; "" if one can.
	Invalid string
}

// HTTPGet succeeds with a status code from 200 to 399.
type HTTPGet struct {
	Scheme  string // http or https; certificates are not verified
	Host    string // "" means the pod
	Port    int
	Path    string
	Headers []Header
}

// Header of an HTTP request.
type Header struct{ Name, Value string }

// TCPSocket succeeds if a connection can be opened.
type TCPSocket struct {
	Host string // "" means the pod
	Port int
}

// GRPCHealth calls grpc.health.v1.Health/Check.
type GRPCHealth struct {
	Port    int
	Service string
}

// Probe of a container.
type Probe struct {
	Action           Action
	InitialDelay     time.Duration
	Period           time.Duration
	Timeout          time.Duration
	SuccessThreshold int
	FailureThreshold int
	GracePeriod      *time.Duration // of the termination that a failure causes
}
