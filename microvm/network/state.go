package network

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// state is what a later process needs to know.
type state struct {
	// Table of the firewall.
	Table string `json:"table"`
	// Opened are interfaces that were told to forward.
	Opened []string `json:"opened,omitempty"`
	// Tunnel is what it was made from; "" if there is none.
	Tunnel string `json:"tunnel,omitempty"`
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
		return s, fmt.Errorf("%s cannot be read: %w; remove it, and the firewall's table nl…, if that is there",
			stateFile(dir), err)
	}
	return s, nil
}

func (s state) save(dir string) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(stateFile(dir)+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(stateFile(dir)+".new", stateFile(dir))
}

// forgetState says that there is nothing left.
func forgetState(dir string) error {
	if err := os.Remove(stateFile(dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
