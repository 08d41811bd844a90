package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/microvm/wire"
)

// record is what a later process has to know of a microVM beside what the API server and the machine itself say. It holds no content of the pod.
type record struct {
	ID              string
	Namespace, Name string // of the pod
	UID             types.UID
	Size            fargate.Size
	Place           wire.Network
	Images          map[string]imageRecord // that its machine runs on, by the containers' names
	// Removing: it was asked to be removed, and is not all gone yet.
	Removing bool
}

// imageRecord is of one image.
type imageRecord struct{ ID, Digest string }

func (h *Host) records() string { return filepath.Join(h.o.Dir, "pods") }

func (h *Host) recordFile(id string) string { return filepath.Join(h.records(), id+".json") }

// save makes the record durable, whole or not at all.
func (h *Host) save(r record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	file := h.recordFile(r.ID)
	if err := os.WriteFile(file+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// address of the microVM.
func (r record) address() netip.Addr {
	prefix, err := netip.ParsePrefix(r.Place.Address)
	if err != nil {
		return netip.Addr{}
	}
	return prefix.Addr()
}

// node is the name of the microVM's Node.
func (h *Host) node(r record) string {
	if h.o.Kubelets != nil { // this machine has joined
		return microvm.JoinedNodeName(r.address())
	}
	return microvm.NodeName(r.address(), h.o.Region)
}

// recall reads what earlier processes have left: the microVMs there are. What goes on with them is decided by resume. Machines that no record goes with
// are removed.
func (h *Host) recall() error {
	entries, err := os.ReadDir(h.records())
	if err != nil {
		return err
	}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			_ = os.Remove(filepath.Join(h.records(), e.Name()))
			continue
		}
		var r record
		b, err := os.ReadFile(filepath.Join(h.records(), e.Name()))
		if err == nil {
			err = json.Unmarshal(b, &r)
		}
		if err == nil && (r.ID != id || !r.address().IsValid()) {
			err = errors.New("it is another microVM's, or says no address")
		}
		if err != nil {
			return fmt.Errorf("record of microVM %s: %s: %w; remove the file if the pod is gone", id, filepath.Join(h.records(), e.Name()), err)
		}
		h.o.Links.Keep(r.Place)
		m := newMachine(h, r)
		if vm, err := h.vms.VM(id); err == nil {
			m.vm = vm
		}
		h.machines[id] = m
	}
	if h.router != nil {
		h.router.Sweep(func(id string) bool { return h.machines[id] != nil })
	}
	for _, vm := range h.vms.VMs() {
		if h.machines[vm.ID()] == nil {
			vm.Remove()
		}
	}
	return nil
}
