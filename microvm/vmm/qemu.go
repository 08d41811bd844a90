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
	"time"

	"golang.org/x/sys/unix"
)

// processMark is in the command line of every process that this package starts.
const processMark = "nodeless-machine"

// QEMU runs VMs with QEMU's microvm machine type.
type QEMU struct {
	Binary string // "" finds qemu-system-x86_64
	Kernel Kernel
	Agent  Agent
	// Dir holds files that are made once: the initial file system and the device states of templates. It is private to
	// this user.
	Dir string
	// TemplateDir holds the memory of templates and should be in memory (a tmpfs). "" disables templates.
	TemplateDir string
	// Accelerator is "kvm" or "tcg"; "" probes.
	Accelerator string

	once     sync.Once
	found    Capabilities
	foundErr error
	kernel   string // what the VMM loads: Kernel.Image or the kernel inside it
	initrd   string
	help     string // the VMM's description of its options

	sharesNamespaces bool   // root cannot create namespaces here
	kvm              string // the device; "" is /dev/kvm
	tscKHz           uint64

	mu        sync.Mutex
	templates map[Shape]*template
}

// setUp prepares what every start needs.
func (q *QEMU) setUp() error {
	if q.Binary == "" {
		q.Binary = "qemu-system-x86_64"
	}
	path, err := exec.LookPath(q.Binary)
	if err != nil {
		return fmt.Errorf("%w: %s is not installed (Debian: apt-get install qemu-system-x86): %w", ErrNoVMM, q.Binary, err)
	}
	q.Binary = path
	if err := q.Agent.check(); err != nil {
		return err
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

// templateBasis identifies all that a template depends on besides its shape. A template of another basis is unusable.
func (q *QEMU) templateBasis() (string, error) {
	kernel, err := os.Stat(q.Kernel.Image)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoKernel, err)
	}
	accelerator, cpu := q.processor()
	all := fmt.Sprintf("%s|%s|%s|%s|%v|%d|%s|%s|%s", q.found.Version, accelerator, cpu, q.Kernel.Image,
		kernel.ModTime(), kernel.Size(), q.kernel, q.initrd, bootID())
	return fmt.Sprintf("%x", sha256.Sum256([]byte(all)))[:16], nil
}

// command describes a VM to QEMU.
type command struct {
	shape    Shape
	confine  []string // see confinement; nil for a guest that runs nothing but the agent
	disks    []Disk
	network  []string // values of -netdev; the first is the guest's interface and has no id yet
	memory   string   // file behind the guest's memory; "" is anonymous
	share    bool     // writes to the memory go to the file
	incoming int      // descriptor from which to read a device state; 0: none
	// hostNetwork keeps a confined VMM in the host's network, which libslirp needs.
	hostNetwork bool
}

// arguments returns QEMU's arguments. All VMs have the same devices, used or not, so that each can be restored from
// the template of its shape. There is no balloon, since returning memory would punch holes into the template's memory
// file, which other VMs share; and no virtio-rng, since the host sends entropy.
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
			fmt.Sprintf("memory-backend-file,id=mem,size=%dM,mem-path=%s,share=%s", c.shape.MemoryMiB, c.memory, share))
	}
	args = append(args, "-M", machine, "-initrd", q.initrd)
	args = append(args, q.CPUAndKernel()...)
	args = append(args, "-qmp", "unix:"+qmpFile+",server=on,wait=off", "-nodefaults", "-no-user-config", "-no-reboot",
		"-display", "none",
		"-sandbox", sandbox(len(c.confine) > 0),
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
		backend, serial, readOnly := "driver=null-co,read-zeroes=on,size=1048576", spareSerial(i), "on"
		if i < len(c.disks) {
			d := c.disks[i]
			backend, serial = "driver=raw,discard=unmap,file.driver=file,file.locking=off,file.filename="+
				strings.ReplaceAll(d.Path, ",", ",,"), d.Serial
			if !d.ReadOnly {
				readOnly = "off"
			}
		}
		node := fmt.Sprintf("disk%d", i)
		// Report all errors to the guest, even when the host's disk is full. By default QEMU would then stop the VM,
		// which would appear to hang.
		args = append(args, "-blockdev", fmt.Sprintf("%s,node-name=%s,read-only=%s", backend, node, readOnly),
			"-device", fmt.Sprintf("virtio-blk-device,id=%s,drive=%s,serial=%s,werror=report,rerror=report", deviceID(i), node,
				serial))
	}
	if c.incoming != 0 {
		args = append(args, "-incoming", "defer")
	}
	return append(args, c.confine...)
}

// processor returns QEMU's accelerator and the CPU that guests see.
func (q *QEMU) processor() (accelerator, cpu string) {
	if q.found.Accelerator == "kvm" {
		return "kvm", "host"
	}
	// Omit the CPU features that make an emulated kernel slow. ERMS: an emulated instruction that moves bytes takes as
	// long per byte as one that moves words takes per word. LA57: five-level page tables add a level to walk. SMAP:
	// each access to a process's memory ends two blocks of translated code. As for tb-size, 32 MiB of translations are
	// not enough for a boot: QEMU would discard all of them and translate again.
	return "tcg,tb-size=64", "max,-erms,-la57,-smap"
}

// CPUAndKernel returns QEMU's arguments for CPU and kernel, after Probe.
func (q *QEMU) CPUAndKernel() []string {
	accelerator, cpu := q.processor()
	return []string{"-accel", accelerator, "-cpu", cpu, "-kernel", q.kernel, "-append", q.KernelArguments()}
}

// KernelArguments returns the guest kernel's command line. It enables only the security modules that a pod can use by
// itself. The others need profiles, which no guest has, and would be consulted at every system call.
func (q *QEMU) KernelArguments() string {
	args := "console=ttyS0 quiet loglevel=4 reboot=t panic=-1 nokaslr cryptomgr.notests no_timer_check " +
		"random.trust_cpu=on 8250.nr_uarts=1 tsc=reliable audit=0 mitigations=off net.ifnames=0 lsm=landlock,yama"
	if q.tscKHz > 0 {
		args += fmt.Sprintf(" tsc_early_khz=%d", q.tscKHz)
	}
	return args
}

// Start implements Driver.
func (q *QEMU) Start(ctx context.Context, spec Spec) (*Process, bool, error) {
	if _, err := q.Probe(ctx); err != nil {
		return nil, false, err
	}
	if len(spec.Disks) > MaxDisks {
		return nil, false, fmt.Errorf("VM %s: %d disks, a VM can have %d: use fewer different images", spec.ID,
			len(spec.Disks), MaxDisks)
	}
	c := command{shape: spec.Shape, disks: spec.Disks, network: noNetwork, confine: q.confine(spec.ID)}
	var inherit []*os.File
	switch {
	case spec.Tap != nil:
		inherit = append(inherit, spec.Tap)
		c.network = []string{"tap,vhost=off,fd=3"}
	case spec.UserNet != nil:
		guest, filtered, err := spec.UserNet.sockets()
		if err == nil && len(c.confine) > 0 {
			err = copyResolvers(spec.Dir)
		}
		if err != nil {
			return nil, false, fmt.Errorf("VM %s: %w", spec.ID, err)
		}
		defer func() { _, _ = guest.Close(), filtered.Close() }()
		inherit = append(inherit, guest, filtered)
		c.network, c.hostNetwork = spec.UserNet.devices(3, 4), true
	}
	state, memory := q.template(spec.Shape).open()
	if state != nil {
		defer func() { _ = state.Close() }()
		c.memory, c.incoming = memory, 3+len(inherit)
		inherit = append(inherit, state)
	}
	p, err := q.launch(spec.ID, spec.Dir, c, inherit)
	if err != nil {
		return nil, false, fmt.Errorf("VM %s: %w", spec.ID, err)
	}
	return p, state != nil, nil
}

// noNetwork is an interface that is connected to nothing. It has no state of its own, since each clone of a template
// brings its own kind of network.
var noNetwork = []string{"hubport,hubid=0"}

// launch starts the process in its own session. Its working directory is the state directory, by which it is found
// again.
func (q *QEMU) launch(id, dir string, c command, inherit []*os.File) (*Process, error) {
	log, err := openLog(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	_ = os.Remove(filepath.Join(dir, controlFile))
	cmd := exec.Command(q.Binary, q.arguments(c)...) //nolint:noctx // it outlives this process
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = dir, log, log, inherit
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if len(c.confine) > 0 && !q.sharesNamespaces {
		cmd.SysProcAttr.Cloneflags = ownNamespaces
		if c.hostNetwork {
			cmd.SysProcAttr.Cloneflags &^= unix.CLONE_NEWNET
		}
	}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir}
	// The VM itself limits the guest; a cgroup limits the VMM, too, where one can be created (see limitsWarning).
	g, _, _ := makeGroup(id, vmmLimits(c.shape))
	p, err := spawn(cmd, startFiltered, id, dir, g)
	if err != nil {
		return nil, err
	}
	if err = awaitSocket(p, filepath.Join(dir, controlFile)); err == nil {
		err = p.awaitMonitor(c.incoming)
	}
	if err != nil {
		p.Kill()
		return nil, fmt.Errorf("%w: %s", err, p.LastWords())
	}
	return p, nil
}

// startLimit is how long QEMU may take to open its control socket, or to fail.
const startLimit = 20 * time.Second

// awaitSocket waits until QEMU listens on its control socket, or ends.
func awaitSocket(p *Process, path string) error {
	for deadline := time.Now().Add(startLimit); time.Now().Before(deadline); {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		select {
		case <-p.Done():
			return errors.New("the VMM ended at once")
		case <-time.After(2 * time.Millisecond):
		}
	}
	return fmt.Errorf("the VMM does not open its control socket within %s", startLimit)
}

// vmmLimits adds to a guest's shape QEMU's own memory, the template pages that this VM touches first, and half a CPU
// for QEMU's own threads.
func vmmLimits(s Shape) limits {
	const overheadMiB = 384
	return limits{memoryMiB: s.MemoryMiB + overheadMiB, cpu: s.CPUs*100_000 + 50_000, processes: 256}
}
