package wire

// Ground is what an agent stands on that has no virtual machine: namespaces of a host whose kernel it shares. The
// driver tells it before anything else, on descriptor GroundFD; a guest with a kernel of its own is told nothing.
type Ground struct {
	// Root is an empty directory of the host over which the agent makes its own root; Enter is the program of its
	// containers' processes, on the host.
	Root, Enter string
	Disks       []GroundDisk
	// Controllers are the version 1 cgroup hierarchies that hold the limits, each by its controllers as mount(8) takes
	// them, like "cpu,cpuacct"; none where cgroup v2 has them.
	Controllers []string
}

// GroundDisk is a disk image that the agent has open.
type GroundDisk struct {
	Serial   string
	FD       int
	ReadOnly bool
}

// Descriptors that such an agent inherits beside its standard ones and its disks.
const (
	GroundFD  = 3 // the Ground, JSON, is read from it
	ControlFD = 4 // a listening unix socket, on which hosts begin sessions
)

// GroundArgument is the agent's second argument then: it runs in namespaces. The first is the directory of its
// machine, by which it is found.
const GroundArgument = "namespaces"
