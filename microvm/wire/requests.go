package wire

import (
	"encoding/binary"
	"encoding/json"
	"time"
)

// Kinds of streams a host opens, with the type of the request and of the reply.
const (
	KindHello    = "hello"    // nil, Hello
	KindStart    = "start"    // Pod, nil: the pod was taken on; its status tells the rest
	KindWatch    = "watch"    // nil; messages: Update, the first at once, then on each change
	KindLogs     = "logs"     // LogsRequest; data: LogRecord; messages from the host: LogsTaken
	KindFlush    = "flush"    // nil, nil: when the host has taken all records there are
	KindExec     = "exec"     // Exec; data on Stdin, Stdout, Stderr; messages from the host: Size; ExecResult
	KindAttach   = "attach"   // Attach; as exec
	KindConnect  = "connect"  // Connect; data on Stdin from the host, on Stdout from the guest, ends either way; nil
	KindStats    = "stats"    // nil, Stats
	KindFiles    = "files"    // Volume, nil: its files are replaced all at once
	KindSignal   = "signal"   // Signal, nil
	KindStop     = "stop"     // Stop, nil: when no container runs any more
	KindPowerOff = "poweroff" // nil; the guest goes without a reply
	KindPing     = "ping"     // Ping, nil
)

// Hello is a guest agent's answer to a host that has begun a session.
type Hello struct {
	ID          string // of the pod it was told to start; "" before
	MemoryBytes int64  // of the guest, as its kernel sees it
	CPUs        int
	Kernel      string
}

// Ping asks whether the agent is alive and sets the guest's clock when it is far off.
type Ping struct{ UnixNano int64 }

// LogsRequest asks for what was logged after a record (its Nanos; 0: all there is).
type LogsRequest struct{ After int64 }

// LogsTaken lets the guest forget records up to one: the host has stored them.
type LogsTaken struct{ Through int64 }

// Exec starts a process in a running container.
type Exec struct {
	Container                  string
	Args                       []string
	Stdin, Stdout, Stderr, TTY bool
	Size                       *Size
}

// Attach joins the first process of a running container.
type Attach struct {
	Container             string
	Stdin, Stdout, Stderr bool
	Size                  *Size
}

// Size of a terminal, in characters.
type Size struct{ Columns, Rows uint16 }

// ExecResult is how a process ended: as a shell says it, 128 + signal for a killed one.
type ExecResult struct{ Code int }

// Connect opens a TCP connection to a port of the pod.
type Connect struct{ Port int }

// Signal goes to a container's first process.
type Signal struct {
	Container string
	Number    int
}

// Stop ends the pod: preStop hooks, the stop signal, and after Grace SIGKILL.
type Stop struct{ Grace time.Duration }

// Update is what a guest has to say of its pod: where it stands, and what happened meanwhile.
type Update struct {
	Status PodStatus
	Events []Event
}

// Event of a container, in kubelet's words.
type Event struct {
	Container string
	Warning   bool
	Reason    string
	Message   string
}

// PodStatus is what the guest knows of its pod.
type PodStatus struct {
	Initialized bool // the init containers have done their work
	Done        bool // nothing runs and nothing will be started
	Containers  []ContainerStatus
	// Failure says why the pod as a whole could not be run.
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

// ContainerStatus is a container's state and how it came to it.
type ContainerStatus struct {
	Name     string
	State    State
	Reason   string // of waiting
	Message  string
	Started  time.Time // of running
	Exit     *Exit     // of the current state Terminated
	LastExit *Exit     // of the run before this one
	Restarts int
	Ready    bool
	// StartupDone: the startup probe, if any, has succeeded.
	StartupDone bool
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

// LogRecord is a line, or a part of one, that a container wrote.
type LogRecord struct {
	Nanos     int64 // Unix time; strictly increasing within a pod, so that it names the record
	Container uint16
	Restart   uint32
	Stream    byte // Stdout or Stderr
	Partial   bool // the line goes on in the next record of the same stream
	Line      []byte
}

// MaxLogLine is the longest Line; longer ones come in parts.
const MaxLogLine = 16 << 10

const logHeader = 8 + 2 + 4 + 1

// Encode gives the data of a frame on channel r.Stream.
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

// DecodeLogRecord reads one from data received on a channel.
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

// Message decodes an item's message, and breaks the session's rules if it is not one.
func Message[T any](it Item) (v T, err error) {
	if err := json.Unmarshal(it.Message, &v); err != nil {
		return v, broken("a message that cannot be read: %v", err)
	}
	return v, nil
}
