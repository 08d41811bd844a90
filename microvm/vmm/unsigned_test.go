package vmm

import (
	"os"
	"path/filepath"
	"testing"
)

// A module loses its signature and nothing else.
func TestModulesLoseTheirSignature(t *testing.T) {
	record := "\x00\x00\x02\x00\x00\x00\x00\x00"
	for signed, want := range map[string]string{
		"module" + "signature" + record + "\x00\x00\x00\x09" + signatureEnd: "module",
		"module": "module",
		"":       "",
		// A length beyond the start of the file.
		"module" + record + "\x00\x00\x00\xff" + signatureEnd: "module" + record + "\x00\x00\x00\xff" + signatureEnd,
		"short" + signatureEnd:                                "short" + signatureEnd,
	} {
		if got := string(unsigned([]byte(signed))); got != want {
			t.Errorf("%q is left of %q, want %q", got, signed, want)
		}
	}
}

// Modules keep their signatures if the kernel requires them, or if its configuration is unknown.
func TestTakesUnsigned(t *testing.T) {
	for config, want := range map[string]bool{
		"":                                       false, // there is no such file
		"CONFIG_MODULE_SIG=y\n":                  true,
		"# CONFIG_MODULE_SIG_FORCE is not set\n": true,
		"CONFIG_MODULE_SIG=y\nCONFIG_MODULE_SIG_FORCE=y\n": false,
		"CONFIG_LOCK_DOWN_KERNEL_FORCE_INTEGRITY=y\n":      false,
	} {
		dir := t.TempDir()
		if config != "" {
			if err := os.WriteFile(filepath.Join(dir, "config-6.1.0-1-cloud"), []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := (Kernel{Image: filepath.Join(dir, "vmlinuz-6.1.0-1-cloud")}).takesUnsigned(); got != want {
			t.Errorf("with %q: %v", config, got)
		}
	}
}
