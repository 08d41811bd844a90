package wire

import "time"

// Pod is everything a guest needs to run a pod: the host has resolved names, references and images.
type Pod struct {
	// ID is the identity of this virtual machine: chosen by the host, told once, and asked for when a host adopts the
	// machine again.
	ID       string
	Hostname string
	// UnixNano, Entropy and MachineID make a guest that was restored from a template a machine of its own.
	UnixNano  int64
	Entropy   []byte
	MachineID string
	Network   Network
	// Root disks by their serial; each is an ext4 file system, mounted read-only under the containers' writable layers.
	Disks []string
	// Scratch is the serial of an ext4 disk for writable layers and emptyDirs; "" keeps them in memory.
	Scratch string
	Volumes []Volume
	// in the order of the pod: first those of Kind Init and Sidecar, then the regular ones
	Containers            []Container
	RestartPolicy         RestartPolicy
	Backoff               Backoff
	GracePeriod           time.Duration
	FSGroup               *int64
	ShareProcessNamespace bool
	HostPID               bool // the containers see the guest's processes; there are no others
	Sysctls               map[string]string
}

// Backoff of restarts: Initial, doubled with each, at most Max; over after Reset of running. Kubelet's are 10s, 5m
// and 10m.
type Backoff struct{ Initial, Max, Reset time.Duration }

// RestartPolicy is a pod's.
type RestartPolicy string

// Restart policies, as in Kubernetes.
const (
	RestartAlways    RestartPolicy = "Always"
	RestartOnFailure RestartPolicy = "OnFailure"
	RestartNever     RestartPolicy = "Never"
)

// Network of the guest. Without an Address it has a loopback interface alone.
type Network struct {
	MAC         string
	Address     string // CIDR, like 10.0.2.15/24; with 32 bits all but the guest itself is behind the gateway
	Gateway     string
	MTU         int
	Nameservers []string
	Searches    []string
	Options     []string
	Hosts       []HostAlias
	Domain      string // in which the host name is found, like web.shop.svc.cluster.local; "" if in none
}

// HostAlias is a line of /etc/hosts.
type HostAlias struct {
	IP    string
	Names []string
}

// Volume is a directory that containers mount. Without Files it is an emptyDir.
type Volume struct {
	Name      string
	Memory    bool  // on a tmpfs
	SizeLimit int64 // bytes; enforced on a tmpfs
	Files     []File
	Projected bool // holds Files, possibly none, replaced all at once by an update
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
	// started in the order of the init containers, runs until the regular ones are over
	KindSidecar ContainerKind = "Sidecar"
	KindRegular ContainerKind = "Regular"
)

// Container of a pod.
type Container struct {
	Name            string
	Kind            ContainerKind
	Disk            string // serial of its root disk
	Args            []string
	Env             []string // NAME=value
	WorkingDir      string
	User            User
	Capabilities    []string // like CHOWN; of the bounding set
	Privileged      bool
	NoNewPrivileges bool
	ReadOnlyRoot    bool
	MemoryBytes     int64 // limit; 0: the guest's memory
	CPUMilli        int64 // limit; 0: the guest's CPUs
	CPUShareMilli   int64 // request, the weight among containers
	Mounts          []Mount
	TTY             bool
	Stdin           bool
	StdinOnce       bool
	StartupProbe    *Probe
	LivenessProbe   *Probe
	ReadinessProbe  *Probe
	PostStart       *Action
	PreStop         *Action
	StopSignal      int // 0: SIGTERM
	// TerminationMessagePath is a file in the container; FallbackToLogs takes the end of the log when it is empty and
	// the container failed.
	TerminationMessagePath string
	FallbackToLogs         bool
	// Earlier is what became of the container in machines before this one, which ended under it; nil: there was none.
	Earlier *Earlier
}

// Earlier is what became of a container before its pod was given another machine.
type Earlier struct {
	Runs     int   // there were
	LastExit *Exit // of the last one; nil: there was none
	Over     bool  // it has done its work and is not run again
}

// Status is what is known of the container until its new machine tells of it.
func (e Earlier) Status(name string) ContainerStatus {
	s := ContainerStatus{Name: name, State: Waiting, Restarts: max(0, e.Runs-1), LastExit: e.LastExit}
	if e.Over {
		s.State, s.Exit, s.LastExit = Terminated, e.LastExit, nil
	}
	return s
}

// User a container runs as. UID and GID go before Name, which is the image's USER: name or number, with :group or
// without.
type User struct {
	UID, GID *int64
	Name     string
	Groups   []int64
	// NonRoot refuses to run as user 0.
	NonRoot bool
}

// Mount of a volume into a container.
type Mount struct {
	Volume   string
	Path     string // in the container
	SubPath  string // in the volume
	ReadOnly bool
}

// Action is one of: a command in the container, an HTTP request, a TCP connection, a gRPC health check, a pause.
type Action struct {
	Exec  []string
	HTTP  *HTTPGet
	TCP   *TCPSocket
	GRPC  *GRPCHealth
	Sleep time.Duration
}

// HTTPGet succeeds with a status from 200 to 399.
type HTTPGet struct {
	Scheme  string // http or https; certificates are not checked
	Host    string // "" is the pod itself
	Port    int
	Path    string
	Headers []Header
}

// Header of an HTTP request.
type Header struct{ Name, Value string }

// TCPSocket succeeds when a connection can be opened.
type TCPSocket struct {
	Host string // "" is the pod itself
	Port int
}

// GRPCHealth asks grpc.health.v1.Health/Check.
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
	GracePeriod      *time.Duration // of the kill that follows
}
