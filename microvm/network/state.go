package network

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nodeless/nodeless/internal/kit/atomicfile"
)

// state is what the next process needs to know. It is saved before the kernel is changed.
type state struct {
	// Table of the firewall.
	Table string `json:"table"`
	// Opened are the interfaces on which forwarding was enabled.
	Opened []string `json:"opened,omitempty"`
	// Tunnel is the name of the interface to other instances; "" for none.
	Tunnel string `json:"encryptedTunnel,omitempty"`
}

func stateFile(dir string) string { return filepath.Join(dir, "network.json") }

func loadState(dir string) (s state, err error) {
	b, err := os.ReadFile(stateFile(dir))
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return s, fmt.Errorf("%s cannot be read: %w; delete it, and the firewall table nl… if there is one",
			stateFile(dir), err)
	}
	return s, nil
}

func (s state) save(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return atomicfile.WriteJSON(stateFile(dir), s)
}

// forgetState records that nothing is left.
func forgetState(dir string) error {
	if err := os.Remove(stateFile(dir)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
