package guest

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/guest/enter"
	"github.com/nodeless/nodeless/microvm/wire"
)

// pod is the guest's pod.
type pod struct {
	spec      wire.Pod
	processes *processes
	host      *hostKernel // nil: the kernel is the pod's own
	logs      *logs
	prepared  chan struct{} // closed: containers may start
	holder    int           // the first process of the PID namespace that the containers share; 0: they share none

	stopping chan struct{} // closed: nothing more is started
	stopOnce sync.Once
	deadline time.Time     // of the stop; valid after stopping is closed, as is forced
	forced   bool          // stop without a grace period
	done     chan struct{} // closed: nothing runs

	// over is closed when the init and regular containers of a round must end, to run again in the next one. Replacing
	// and closing it are guarded by mu.
	over   chan struct{}
	rounds int       // consecutive short ones that have ended like that
	began  time.Time // when the round began

	filesMu sync.Mutex // one update of a volume at a time
	adding  sync.Mutex // one container at a time
	// late are the disks that were mounted since the pod was prepared, by serial; guarded by adding.
	late map[string]bool

	mu         sync.Mutex
	containers []*container
	status     wire.PodStatus // without Containers
	events     []wire.Event   // not sent yet
	changed    chan struct{}  // closed and replaced when one of the above, or a container's status, changes
}

func newPod(spec wire.Pod, processes *processes, host *hostKernel) *pod {
	p := &pod{
		spec: spec, processes: processes, host: host, logs: newLogs(), stopping: make(chan struct{}),
		prepared: make(chan struct{}), done: make(chan struct{}), changed: make(chan struct{}), over: make(chan struct{}),
		late: map[string]bool{},
	}
	for i, c := range spec.Containers {
		p.containers = append(p.containers, newContainer(p, i, c))
	}
	return p
}

// run runs the pod until it ends.
func (p *pod) run() {
	defer close(p.done)
	err := p.prepare()
	if err != nil {
		p.update(func() { p.status.Failure = err.Error() })
	} else {
		close(p.prepared)
		p.runRound()
		for p.nextRound() {
			p.runRound()
		}
	}
	p.endOthers()
	p.update(func() { p.status.Done = true })
}

// runRound runs the init containers and then the regular ones, until none will be restarted or all must be.
func (p *pod) runRound() {
	p.began = time.Now()
	p.update(func() { p.each(func(c *container) { c.over = p.over }) })
	if p.runInits() {
		p.update(func() { p.status.Initialized = true })
		p.runRegulars()
	}
}

func (p *pod) prepare() error {
	if err := p.becomeUnique(); err != nil {
		return err
	}
	if err := makePodCgroup(p); err != nil {
		return err
	}
	if err := p.mountDisks(); err != nil {
		return err
	}
	if err := startNetwork(p.spec.Network, p.host != nil); err != nil {
		return err
	}
	if err := writeEtc(p.spec); err != nil {
		return err
	}
	if err := enter.MountFS("shm", filepath.Join(enter.PodDir, "shm"), "tmpfs", enter.DataOnly, "mode=1777"); err != nil {
		return err
	}
	for _, v := range p.spec.Volumes {
		if err := p.makeVolume(v); err != nil {
			return fmt.Errorf("volume %s: %w", v.Name, err)
		}
	}
	if err := os.MkdirAll(filepath.Join(enter.PodDir, "termination"), 0o755); err != nil {
		return err
	}
	if p.spec.ShareProcessNamespace && !p.spec.HostPID {
		return p.shareProcesses()
	}
	return nil
}

// shareProcesses makes the PID namespace that all containers share. Its first process has a cgroup of its own, so
// that it does not end with any container.
func (p *pod) shareProcesses() error {
	group := filepath.Join(cgroupDir, "shared")
	if err := os.Mkdir(group, 0o755); err != nil {
		return fmt.Errorf("share the process namespace: %w", err)
	}
	io, err := newStdio(false, false, nil, func(byte, io.Reader) {})
	if err == nil {
		p.holder, _, err = p.processes.enter(enter.Entry{Hold: true}, io,
			enterOptions{cgroup: group, flags: unix.CLONE_NEWPID})
	}
	if err != nil {
		return fmt.Errorf("share the process namespace: %w", err)
	}
	return nil
}

// runInits runs init containers to completion and starts sidecars, in order. It reports whether the regular
// containers may start.
func (p *pod) runInits() bool {
	for _, c := range p.all() {
		switch c.spec.Kind {
		case wire.KindInit:
			if !c.supervise() {
				return false
			}
		case wire.KindSidecar:
			c.done = make(chan struct{})
			go func() {
				defer close(c.done)
				c.supervise()
			}()
			if !c.awaitStartup() {
				return false
			}
		}
	}
	return true
}

// runRegulars runs the regular containers until none will be restarted.
func (p *pod) runRegulars() {
	var all sync.WaitGroup
	for _, c := range p.all() {
		if c.spec.Kind == wire.KindRegular {
			all.Go(func() { c.supervise() })
		}
	}
	all.Wait()
}

// add adds an ephemeral container and runs it once.
func (p *pod) add(a wire.Add) error {
	p.adding.Lock()
	defer p.adding.Unlock()
	if err := p.mountFor(a); err != nil {
		return err
	}
	had := p.all()
	if a.Index < len(had) && had[a.Index].spec.Name == a.Container.Name {
		return nil
	}
	if a.Index != len(had) || a.Container.Kind != wire.KindEphemeral {
		return fmt.Errorf("container %s cannot be number %d of a pod that has %d", a.Container.Name, a.Index, len(had))
	}
	c := newContainer(p, a.Index, a.Container)
	c.done = make(chan struct{})
	p.update(func() { p.containers = append(slices.Clone(had), c) })
	go func() {
		defer close(c.done)
		c.supervise()
	}()
	return nil
}

// mountFor waits until the pod is prepared, and mounts those disks of a container and its image volumes that the guest
// has not had since its start. p.adding is held.
func (p *pod) mountFor(a wire.Add) error {
	select {
	case <-p.prepared:
	case <-p.done:
		return errors.New("the pod has ended")
	}
	late := map[string]string{}
	maps.Copy(late, a.Volumes)
	if a.Device != "" {
		late[a.Container.Disk] = a.Device
	}
	for serial, device := range late {
		if p.late[serial] {
			continue
		}
		if err := p.mountLate(device, serial); err != nil {
			return err
		}
		p.late[serial] = true
	}
	return nil
}

// all returns the pod's containers.
func (p *pod) all() []*container {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.containers
}

// endOthers stops the sidecars, in reverse order, and ephemeral containers.
func (p *pod) endOthers() {
	p.beginStop(p.spec.GracePeriod)
	for _, c := range slices.Backward(p.all()) {
		if c.done != nil {
			c.kill(p.grace())
			<-c.done
		}
	}
}

// beginStop prevents anything more from being started. The first caller's grace period applies. beginStop reports
// whether this is the first call.
func (p *pod) beginStop(grace time.Duration) (first bool) {
	p.stopOnce.Do(func() {
		first, p.forced, p.deadline = true, grace <= 0, time.Now().Add(grace)
		close(p.stopping)
	})
	return first
}

// grace returns what is left of the grace period while the pod is being stopped. As with a kubelet, it is at least
// minGrace, unless the stop is forced.
func (p *pod) grace() time.Duration {
	if p.forced {
		return 0
	}
	return max(minGrace, time.Until(p.deadline))
}

// stop ends the pod: the sidecars last, in reverse order, and before them all other containers at once. A later call
// can shorten the grace period. It returns when nothing runs.
func (p *pod) stop(grace time.Duration) {
	if !p.beginStop(grace) {
		defer time.AfterFunc(grace, p.killAll).Stop()
	}
	for _, c := range p.all() {
		if c.spec.Kind != wire.KindSidecar {
			go c.kill(p.grace())
		}
	}
	<-p.done
}

// killAll kills the containers that run.
func (p *pod) killAll() {
	for _, c := range p.all() {
		if r, err := c.running(); err == nil {
			r.killAll()
		}
	}
}

// update changes the pod's or a container's status and notifies the watchers.
func (p *pod) update(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.changed)
	p.changed = make(chan struct{})
}

const maxEvents = 128 // not sent yet; the oldest are dropped

// event records what a kubelet would record for a container. p.mu is held.
func (p *pod) event(e wire.Event) {
	if len(p.events) == maxEvents {
		p.events = p.events[1:]
	}
	p.events = append(p.events, e)
}

// maxUpdate bounds the bytes of events in one update. A byte may become six in JSON, and the host accepts no message of
// more than 1 MiB.
const maxUpdate = 64 << 10

// takeEvents returns the oldest unsent events, as many as fit into one update. p.mu is held.
func (p *pod) takeEvents() []wire.Event {
	n, bytes := 0, 0
	for n < len(p.events) && (n == 0 || bytes+len(p.events[n].Message) <= maxUpdate) {
		bytes += len(p.events[n].Message)
		n++
	}
	told := p.events[:n:n]
	p.events = p.events[n:]
	return told
}

// watch sends the pod's status at once and after each change. Changes that come faster than the host receives them are
// combined.
func (p *pod) watch(s *wire.Stream) error {
	for {
		p.mu.Lock()
		u := wire.Update{Status: p.status, Events: p.takeEvents()}
		for _, c := range p.containers {
			u.Status.Containers = append(u.Status.Containers, c.status)
		}
		more, changed := len(p.events) > 0, p.changed
		p.mu.Unlock()
		if err := s.SendMessage(u); err != nil {
			return err
		}
		if more {
			continue
		}
		select {
		case <-changed:
		case <-s.Done():
			return nil
		}
	}
}

// container returns a container by its name.
func (p *pod) container(name string) (*container, error) {
	for _, c := range p.all() {
		if c.spec.Name == name {
			return c, nil
		}
	}
	return nil, fmt.Errorf("container %q is not in the pod", name)
}

// running returns the current run of a container.
func (p *pod) running(name string) (*run, error) {
	c, err := p.container(name)
	if err != nil {
		return nil, err
	}
	return c.running()
}
