package plane

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// state holds the settings that persist from one start to the next.
type state struct {
	Port        int    `json:"port"`
	ServiceCIDR string `json:"serviceCIDR"`
}

const defaultServiceCIDR = "10.96.0.0/16"

func stateFile(dir string) string { return filepath.Join(dir, "plane.json") }

// loadState reads the state. An invalid file counts as missing, since all settings can be chosen anew.
func loadState(dir string) (state, error) {
	var s state
	raw, err := os.ReadFile(stateFile(dir))
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("control plane settings: %w", err)
	}
	if json.Unmarshal(raw, &s) != nil || s.Port < 0 || s.Port > 65535 {
		return state{}, nil //nolint:nilerr // damaged settings are chosen anew
	}
	return s, nil
}

func (s state) save(dir string) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return writeFile(stateFile(dir), append(raw, '\n'))
}

// setServiceCIDR sets the range on the first start; later starts must use the same one.
func (s *state) setServiceCIDR(want string) error {
	if want != "" {
		ip, n, err := net.ParseCIDR(want)
		if err != nil || ip.To4() == nil {
			return fmt.Errorf("service CIDR %q: give an IPv4 range such as %s", want, defaultServiceCIDR)
		}
		if ones, _ := n.Mask.Size(); ones < 12 || ones > 28 {
			return fmt.Errorf("service CIDR %q: give a range between /12 and /28", want)
		}
		want = n.String()
	}
	switch {
	case s.ServiceCIDR == "" && want == "":
		s.ServiceCIDR = defaultServiceCIDR
	case s.ServiceCIDR == "":
		s.ServiceCIDR = want
	case want != "" && want != s.ServiceCIDR:
		return fmt.Errorf("service CIDR %s: this cluster was made with %s and keeps it; delete it with \"nodeless "+
			"down --wipe\" to change the range", want, s.ServiceCIDR)
	}
	return nil
}

// serviceIP returns the address of the Service "kubernetes": the first of the range.
func serviceIP(cidr string) (net.IP, error) {
	_, n, err := net.ParseCIDR(cidr)
	if err != nil {
		return nil, fmt.Errorf("service CIDR %q: %w", cidr, err)
	}
	ip := n.IP.To4()
	return net.IPv4(ip[0], ip[1], ip[2], ip[3]+1), nil
}

// writeFile replaces a file atomically; only its owner can read it.
func writeFile(path string, data []byte) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
