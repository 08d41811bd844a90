package vmm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// processMark is in the command line of every VMM process this package starts.
const processMark = "nodeless-machine"

// QEMU runs machines with QEMU's microvm machine type.
type QEMU struct {
	Binary string // "" finds qemu-system-x86_64
	Kernel Kernel
	Agent  Agent
	// Dir holds what is made once: the initial file system and device states of templates. It is private to this user.
	Dir string
	// TemplateDir holds the memory of templates; it should be in memory (a tmpfs). "" makes no templates.
	TemplateDir string
	// Accelerator is "kvm" or "tcg"; "" probes.
	Accelerator string

	once      sync.Once
	found     Capabilities
	foundErr  error
	kernel    string // what the VMM loads: Kernel.Image or what is in it
	initrd    string
	tscKHz    uint64
	templates templates
}

// setUp finds what every start needs, once.
func (q *QEMU) setUp() error {
	if q.Binary == "" {
		q.Binary = "qemu-system-x86_64"
	}
	path, err := exec.LookPath(q.Binary)
	if err != nil {
		return fmt.Errorf("%w: %s is not installed (Debian: apt-get install qemu-system-x86): %w", ErrNoVMM, q.Binary, err)
	}
	q.Binary = path
	if len(q.Agent.Init) == 0 || len(q.Agent.Enter) == 0 {
		return errors.New("there is no guest agent: this program was built without it; build it with make build")
	}
	if err := os.MkdirAll(q.Dir, 0o700); err != nil {
		return err
	}
	if q.initrd, err = initramfs(q.Dir, q.Agent, q.Kernel); err != nil {
		return fmt.Errorf("make the guest's initial file system: %w", err)
	}
	if q.kernel, err = unpackKernel(q.Dir, q.Kernel.Image); err != nil {
		return fmt.Errorf("%w: unpack it: %w", ErrNoKernel, err)
	}
	q.tscKHz = tscKHz()
	return nil
}

// basis names everything a template depends on beside its shape: a change of any makes it worthless.
func (q *QEMU) basis() (string, error) {
	kernel, err := os.Stat(q.Kernel.Image)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoKernel, err)
	}
	accelerator, cpu := q.processor()
	all := fmt.Sprintf("%s|%s|%s|%s|%v|%d|%s|%s|%s", q.found.Version, accelerator, cpu, q.Kernel.Image,
		kernel.ModTime(), kernel.Size(), q.kernel, q.initrd, bootID())
	return fmt.Sprintf("%x", sha256.Sum256([]byte(all)))[:16], nil
}

// command is the machine as the VMM is told it.
type command struct {
	shape    Shape
	disks    []Disk
	network  []string // values of -netdev; the one of the guest's interface has no id yet and comes first
	memory   string   // file behind the guest's memory; "" is anonymous
	share    bool     // changes of the memory go to the file
	incoming int      // descriptor of the VMM that holds a device state; 0: none
}

// arguments of QEMU. All machines have the same devices, used or not, so that any can be restored from a template of
// its shape. There is no balloon: giving memory back would punch holes into the template's memory file, which others
// share. There is no virtio-rng: the host sends entropy.
func (q *QEMU) arguments(c command) []string {
	machine := "microvm,isa-serial=on"
	args := []string{"-name", processMark, "-m", fmt.Sprint(c.shape.MemoryMiB), "-smp", fmt.Sprint(c.shape.CPUs)}
	if c.memory != "" {
		machine += ",memory-backend=mem"
		share := "off"
		if c.share {
			share = "on"
		}
		args = append(args, "-object",
			fmt.Sprintf("memory-backend-file,id=mem,size=%dM,mem-path=%s,share=%s", c.shape.MemoryMiB, c.memory, share),
			"-qmp", "unix:"+qmpFile+",server=on,wait=off")
	}
	args = append(args, "-M", machine, "-initrd", q.initrd)
	args = append(args, q.CPUAndKernel()...)
	args = append(args, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
		"-chardev", "file,id=console,path="+consoleFile+",append=on", "-serial", "chardev:console",
		"-global", "virtio-mmio.force-legacy=false",
		"-device", "virtio-serial-device", "-chardev", "socket,id=control,path="+controlFile+",server=on,wait=off",
		"-device", "virtserialport,chardev=control,name=nodeless",
		"-netdev", c.network[0]+",id=net", "-device", "virtio-net-device,netdev=net,mac=02:00:00:00:00:01",
	)
	for _, n := range c.network[1:] {
		args = append(args, "-netdev", n)
	}
	for i := range MaxDisks {
		backend, serial, readOnly := "driver=null-co,read-zeroes=on,size=1048576", "", "on"
		if i < len(c.disks) {
			d := c.disks[i]
			backend, serial = "driver=raw,discard=unmap,file.driver=file,file.locking=off,file.filename="+
				strings.ReplaceAll(d.Path, ",", ",,"), d.Serial
			if !d.ReadOnly {
				readOnly = "off"
			}
		}
		node := fmt.Sprintf("disk%d", i)
		// Errors are the guest's to hear, also that the host's disk is full: QEMU would stop the machine then, which looks
		// as if it hung.
		args = append(args, "-blockdev", fmt.Sprintf("%s,node-name=%s,read-only=%s", backend, node, readOnly),
			"-device", fmt.Sprintf("virtio-blk-device,drive=%s,serial=%s,werror=report,rerror=report", node, serial))
	}
	if c.incoming != 0 {
		args = append(args, "-incoming", "defer")
	}
	return args
}

// processor is what QEMU computes with, and the CPU that guests see.
func (q *QEMU) processor() (accelerator, cpu string) {
	if q.found.Accelerator == "kvm" {
		return "kvm", "host"
	}
	// Emulated, one instruction that moves bytes takes as long for each as one that moves words: the kernel is to use
	// those (no ERMS). A page table of five levels is one more to walk (no LA57), and each of the kernel's looks at a
	// process's memory ends two pieces of translated code (no SMAP). 32 MiB of translations are not enough for a start:
	// all are thrown away and made again.
	return "tcg,tb-size=64", "max,-erms,-la57,-smap"
}

// CPUAndKernel are the arguments of QEMU for these two, after Probe.
func (q *QEMU) CPUAndKernel() []string {
	accelerator, cpu := q.processor()
	return []string{"-accel", accelerator, "-cpu", cpu, "-kernel", q.kernel, "-append", q.KernelArguments()}
}

// KernelArguments are the guest kernel's command line. Of the security modules those stay that a pod can use by
// itself: the others need profiles that no guest has, and are asked at every system call.
func (q *QEMU) KernelArguments() string {
	args := "console=ttyS0 quiet loglevel=4 reboot=t panic=-1 nokaslr cryptomgr.notests no_timer_check random.trust_cpu=on 8250.nr_uarts=1 tsc=reliable audit=0 " +
		"mitigations=off net.ifnames=0 lsm=landlock,yama"
	if q.tscKHz > 0 {
		args += fmt.Sprintf(" tsc_early_khz=%d", q.tscKHz)
	}
	return args
}

// Start starts a machine: from a template of its shape where there is one, by booting otherwise.
func (q *QEMU) Start(ctx context.Context, spec Spec) (*Machine, bool, error) {
	if _, err := q.Probe(ctx); err != nil {
		return nil, false, err
	}
	if len(spec.Disks) > MaxDisks {
		return nil, false, fmt.Errorf("machine %s: %d disks, a machine can have %d: use fewer different images", spec.ID,
			len(spec.Disks), MaxDisks)
	}
	c := command{shape: spec.Shape, disks: spec.Disks, network: noNetwork}
	var inherit []*os.File
	switch {
	case spec.Tap != nil:
		inherit = append(inherit, spec.Tap)
		c.network = []string{"tap,vhost=off,fd=3"}
	case spec.UserNet != nil:
		guest, filtered, err := spec.UserNet.sockets()
		if err != nil {
			return nil, false, fmt.Errorf("machine %s: %w", spec.ID, err)
		}
		defer func() { _, _ = guest.Close(), filtered.Close() }()
		inherit = append(inherit, guest, filtered)
		c.network = spec.UserNet.devices(3, 4)
	}
	state, memory, release := q.templates.use(spec.Shape)
	if state != nil {
		defer release()
		c.memory, c.incoming = memory, 3+len(inherit)
		inherit = append(inherit, state)
	}
	m, err := q.launch(spec.ID, spec.Dir, c, inherit)
	if err != nil {
		return nil, false, fmt.Errorf("machine %s: %w", spec.ID, err)
	}
	return m, state != nil, nil
}

// noNetwork is an interface that leads nowhere. It has no state of its own: each clone of a template brings its own
// kind of network.
var noNetwork = []string{"hubport,hubid=0"}

// launch starts the process. It is in a session of its own and has the state directory as its working directory, by
// which it is found again.
func (q *QEMU) launch(id, dir string, c command, inherit []*os.File) (*Machine, error) {
	log, err := os.OpenFile(filepath.Join(dir, vmmLogFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	_ = os.Remove(filepath.Join(dir, controlFile))
	cmd := exec.Command(q.Binary, q.arguments(c)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = dir, log, log, inherit
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir}
	// what a guest does stays within its memory and CPUs; what bounds the VMM is added where it can be had
	g, _, _ := makeGroup(id, vmmBounds(c.shape))
	if err := cmd.Start(); err != nil {
		g.remove()
		return nil, fmt.Errorf("start %s: %w", q.Binary, err)
	}
	r := record{ID: id, Driver: DriverQEMU, PID: cmd.Process.Pid, BootID: bootID(), Shape: c.shape}
	abandon := func(err error) (*Machine, error) {
		_ = cmd.Process.Kill()
		_, _ = cmd.Process.Wait()
		g.remove()
		return nil, err
	}
	if r.StartTime, err = startTime(r.PID); err != nil {
		return abandon(err)
	}
	if err := errors.Join(g.add(r.PID), r.save(dir)); err != nil {
		return abandon(err)
	}
	m, err := newMachine(r, dir, g, cmd.Process)
	if err != nil {
		return abandon(err)
	}
	err = awaitSocket(m, filepath.Join(dir, controlFile))
	if err == nil && c.incoming != 0 {
		err = loadState(dir, c.incoming)
	}
	if err != nil {
		m.Kill()
		return nil, fmt.Errorf("%w: %s", err, m.LastWords())
	}
	return m, nil
}

// vmmBounds are what a VMM may use: the guest's shape, QEMU's own memory and the template's pages it is the first to
// touch, half a CPU for its own thread.
func vmmBounds(s Shape) bounds {
	const overheadMiB = 384
	return bounds{memoryMiB: s.MemoryMiB + overheadMiB, cpu: s.CPUs*100_000 + 50_000, processes: 256}
}
