package wire

// Environment is what the host tells an agent that runs in namespaces and shares the host's kernel. The agent reads
// it as JSON from EnvironmentFD before anything else.
type Environment struct {
	// Root is an empty directory of the host, over which the agent makes its own root.
	Root string
	// Enter is the path, on the host, of the program that becomes a container's process.
	Enter string
	Disks []EnvironmentDisk
	// Controllers are the version 1 cgroup hierarchies that hold the limits, each in the form that mount(8) takes
	// ("cpu,cpuacct"). It is empty if cgroup v2 holds them.
	Controllers []string
}

// EnvironmentDisk is a disk image that the agent inherits as an open file.
type EnvironmentDisk struct {
	Serial   string
	FD       int
	ReadOnly bool
}

// Descriptors that an agent in namespaces inherits in addition to its standard ones and its disks.
const (
	EnvironmentFD = 3
	ControlFD     = 4 // a listening Unix socket on which hosts begin sessions
)

// NamespacesArgument is the second argument of an agent in namespaces. The first is its state directory, by which a
// host finds it.
const NamespacesArgument = "namespaces"
