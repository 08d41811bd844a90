package overlay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/nodeless/nodeless/internal/kit/atomicfile"
)

// Key is a host's private key, or the public one that belongs to it (Curve25519).
type Key = wgtypes.Key

// ParseKey reads a key in base64, as Key.String writes it.
func ParseKey(text string) (Key, error) { return wgtypes.ParseKey(text) }

// LoadKey returns the private key in a host's state directory, and creates one if there is none. Packets are
// encrypted with other keys, which WireGuard negotiates every two minutes. To give the host a new key at its next
// start, remove the file.
func LoadKey(dir string) (Key, error) {
	file := filepath.Join(dir, "overlay.key")
	text, err := os.ReadFile(file)
	if err == nil {
		key, err := ParseKey(strings.TrimSpace(string(text)))
		if err != nil {
			return Key{}, fmt.Errorf("%s: %w; remove it, and the host makes a new key", file, err)
		}
		return key, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return Key{}, err
	}
	key, err := wgtypes.GeneratePrivateKey()
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = atomicfile.Write(file, []byte(key.String()+"\n"))
	}
	return key, err
}
