package wire

import (
	"encoding/binary"
	"encoding/json"
	"time"
)

// Kinds of streams, with the types of request and reply.
const (
	KindHello   = "hello"   // nil, Hello
	KindStart   = "start"   // Pod, nil: the pod was started; its status reports the rest
	KindWatch   = "watch"   // nil; messages: Update, at once and after each change
	KindLogs    = "logs"    // LogsRequest; data: LogRecord; messages from the host: LogsTaken
	KindFlush   = "flush"   // nil, nil: the host has taken all records
	KindExec    = "exec"    // Exec; data on Stdin, Stdout, Stderr; messages from the host: Size; ExecResult
	KindAttach  = "attach"  // Attach; as exec
	KindConnect = "connect" // Connect; data on Stdin from the host and on Stdout from the guest, until either ends; nil
	KindStats   = "stats"   // nil, Stats
	KindFiles   = "files"   // Volume, nil: all its files are replaced at once
	KindAdd     = "add"     // Add, nil: an ephemeral container has begun; its status reports the rest
	KindSupply  = "supply"  // Add, nil: the later runs of a container that the pod has are like this
	KindResize  = "resize"  // Resize, nil: the container has its new limits, or is about to be restarted with them
	KindStop    = "stop"    // Stop, nil: no container runs any more
	KindPing    = "ping"    // Ping, nil
)

// Hello is an agent's answer to a host that begins a session.
type Hello struct {
	ID string // of the pod it runs; "" before it has one
}

// Ping asks whether the agent is alive, and corrects the guest's clock.
type Ping struct{ UnixNano int64 }

// LogsRequest asks for the log records after a time; 0 asks for all.
type LogsRequest struct{ After int64 }

// LogsTaken lets the guest drop records up to a time, since the host has stored them.
type LogsTaken struct{ Through int64 }

// Exec starts a process in a running container.
type Exec struct {
	Container                  string
	Args                       []string
	Stdin, Stdout, Stderr, TTY bool
	Size                       *Size
}

// Attach connects to the first process of a running container.
type Attach struct {
	Container             string
	Stdin, Stdout, Stderr bool
	Size                  *Size
}

// Size of a terminal, in characters.
type Size struct{ Columns, Rows uint16 }

// ExecResult is how a process ended: its exit code or, as a shell reports it, 128 plus the signal that killed it.
type ExecResult struct{ Code int }

// Connect opens a TCP connection to a port of the pod.
type Connect struct{ Port int }

// Add adds an ephemeral container to the pod or, as a KindSupply request, replaces one that the pod has, except for its
// limits, which Resize changes. Both are idempotent: the host sends them again if it did not get the reply.
type Add struct {
	Container Container
	// Index is the container's index among those of the pod, which log records refer to.
	Index int
	// Device is the serial of the device to which the container's disk was attached while the guest ran; "" if the guest
	// has had the disk since its start.
	Device string
	// Volumes are such devices of the disks of the image volumes that the container mounts, by the disks' serials.
	Volumes map[string]string
}

// Resize gives a container new limits.
type Resize struct {
	Container string
	Limits
	// Restart ends the container's current run; the next one has the new limits.
	Restart bool
}

// Stop ends the pod with preStop hooks, the stop signal and, after Grace, SIGKILL.
type Stop struct{ Grace time.Duration }

// Update reports the pod's status, and what has happened since the last update.
type Update struct {
	Status PodStatus
	Events []Event
}

// Event is an event of a container, in kubelet's words.
type Event struct {
	Container string
	Warning   bool
	Reason    string
	Message   string
}

// PodStatus is what the guest knows about its pod.
type PodStatus struct {
	Initialized bool // the init containers have succeeded
	Done        bool // nothing runs and nothing will be started
	Containers  []ContainerStatus
	// Failure says why the pod could not be prepared: no container ran.
	Failure string
}

// State is a container's state.
type State string

// States of a container.
const (
	Waiting    State = "Waiting"
	Running    State = "Running"
	Terminated State = "Terminated"
)

// RestartingAll is the reason of a container that waits to run again, and of its last exit, if a rule of another one
// restarts all.
const RestartingAll = "RestartingAllContainers"

// ContainerStatus is a container's state and its history.
type ContainerStatus struct {
	Name     string
	State    State
	Reason   string // for Waiting
	Message  string
	Started  time.Time // for Running
	Exit     *Exit     // for Terminated
	LastExit *Exit     // of the previous run
	Restarts int
	User     *User // of its first process; nil from agents of earlier versions
	Ready    bool
	// StartupDone is set when the startup probe, if there is one, has succeeded.
	StartupDone bool
	// Held is set if the host must supply the container before it can run again.
	Held bool
}

// Exit says how a container ended.
type Exit struct {
	Code     int
	Signal   int
	Reason   string // Completed, Error, OOMKilled, StartError, ContainerStatusUnknown
	Message  string
	Started  time.Time
	Finished time.Time
}

// Stats of the guest and its containers.
type Stats struct {
	UnixNano   int64
	CPUNanos   uint64 // used since boot
	Memory     MemoryStats
	Containers []ContainerStats
	Network    NetworkStats
	Scratch    FSStats
	Processes  uint64
}

// MemoryStats in bytes.
type MemoryStats struct{ Total, Available, Usage, WorkingSet, RSS, PageFaults, MajorPageFaults uint64 }

// ContainerStats of one container's current run.
type ContainerStats struct {
	Name     string
	CPUNanos uint64
	Memory   MemoryStats
	Started  time.Time
}

// NetworkStats of the guest's interface, in bytes and packets.
type NetworkStats struct{ RxBytes, TxBytes, RxErrors, TxErrors uint64 }

// FSStats of a file system, in bytes and inodes.
type FSStats struct{ Capacity, Available, Used, Inodes, InodesFree uint64 }

// LogRecord is a line, or a part of a line, that a container has written.
type LogRecord struct {
	Nanos     int64 // Unix time; strictly increasing within a pod, so that it identifies the record
	Container uint16
	Restart   uint32
	Stream    byte // Stdout or Stderr
	Partial   bool // the next record of the same stream continues the line
	Line      []byte
}

// MaxLogLine is the maximum length of Line. Longer lines are split into parts.
const MaxLogLine = 16 << 10

const logHeader = 8 + 2 + 4 + 1

// Encode returns the data of a frame on channel r.Stream.
func (r LogRecord) Encode() []byte {
	b := make([]byte, 0, logHeader+len(r.Line))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Nanos))
	b = binary.BigEndian.AppendUint16(b, r.Container)
	b = binary.BigEndian.AppendUint32(b, r.Restart)
	partial := byte(0)
	if r.Partial {
		partial = 1
	}
	return append(append(b, partial), r.Line...)
}

// DecodeLogRecord decodes the data received on a channel.
func DecodeLogRecord(channel byte, b []byte) (LogRecord, error) {
	if len(b) < logHeader || len(b) > logHeader+MaxLogLine || b[14] > 1 || channel != Stdout && channel != Stderr {
		return LogRecord{}, broken("a log record of %d bytes on channel %d", len(b), channel)
	}
	return LogRecord{
		Nanos:     int64(binary.BigEndian.Uint64(b)),
		Container: binary.BigEndian.Uint16(b[8:]),
		Restart:   binary.BigEndian.Uint32(b[10:]),
		Stream:    channel,
		Partial:   b[14] == 1,
		Line:      b[logHeader:],
	}, nil
}

// Message decodes an item's message. If it cannot be decoded the error is a ProtocolError.
func Message[T any](it Item) (v T, err error) {
	if err := json.Unmarshal(it.Message, &v); err != nil {
		return v, broken("a message that cannot be read: %v", err)
	}
	return v, nil
}
