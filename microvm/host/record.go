package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/internal/kit/atomicfile"
	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/microvm/wire"
)

// record is what the next process needs to know about a microVM and cannot learn from the API server or the virtual
// machine. It holds no content of the pod.
type record struct {
	ID              string
	Namespace, Name string // of the pod
	UID             types.UID
	Size            fargate.Size
	Place           wire.Network
	Images          map[string]imageRecord // by container, or by volume with the prefix imageVolume
	// Resources are the resources applied to the guest's containers, by container.
	Resources map[string]corev1.ResourceRequirements
	// Removing is set when Remove was called and has not finished.
	Removing bool
}

// imageRecord identifies an image.
type imageRecord struct{ ID, Digest string }

// recordStore keeps one file per record in a directory.
type recordStore struct{ dir string }

func (s recordStore) file(id string) string { return filepath.Join(s.dir, id+".json") }

func (s recordStore) save(r record) error { return atomicfile.WriteJSON(s.file(r.ID), r) }

// remove deletes a record. A file that cannot be deleted is emptied, which the next start reports.
func (s recordStore) remove(id string) {
	if err := os.Remove(s.file(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		_ = os.Truncate(s.file(id), 0)
	}
}

// load reads all records. It deletes the temporary files that atomicfile has left behind.
func (s recordStore) load() ([]record, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var all []record
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			_ = os.Remove(filepath.Join(s.dir, e.Name()))
			continue
		}
		var r record
		b, err := os.ReadFile(s.file(id))
		if err == nil {
			err = json.Unmarshal(b, &r)
		}
		if err == nil && (r.ID != id || !r.address().IsValid()) {
			err = errors.New("it belongs to another microVM, or has no address")
		}
		if err != nil {
			return nil, fmt.Errorf("record of microVM %s: %s: %w; remove the file if the pod is gone", id, s.file(id), err)
		}
		all = append(all, r)
	}
	return all, nil
}

// address returns the address of the microVM.
func (r record) address() netip.Addr {
	prefix, _ := netip.ParsePrefix(r.Place.Address) // load checks it
	return prefix.Addr()
}

// node returns the name of the microVM's Node.
func (h *Host) node(r record) string {
	if h.o.Pods != nil { // this host has joined
		return microvm.JoinedNodeName(r.address())
	}
	return microvm.NodeName(r.address(), h.o.Region)
}

// loadRecords loads the microVMs of earlier processes; resume decides how each continues. Virtual machines without a
// record are removed.
func (h *Host) loadRecords() error {
	records, err := h.records.load()
	if err != nil {
		return err
	}
	for _, r := range records {
		h.o.Links.Keep(r.Place)
		m := newMicroVM(h, r)
		if vm, err := h.vms.VM(r.ID); err == nil {
			m.vm = vm
		}
		h.microVMs[r.ID] = m
	}
	if h.router != nil {
		h.router.Sweep(func(id string) bool { return h.microVMs[id] != nil })
	}
	for _, vm := range h.vms.VMs() {
		if h.microVMs[vm.ID()] == nil {
			vm.Remove()
		}
	}
	return nil
}
