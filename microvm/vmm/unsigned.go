package vmm

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
)

// takesUnsigned reports whether the kernel loads modules without signatures, according to the configuration next to
// its image. Checking the signatures takes an emulated guest a quarter of the time it needs to load the modules, and
// protects nothing here: the host reads modules and kernel from the same place.
func (k Kernel) takesUnsigned() bool {
	_, version, _ := strings.Cut(filepath.Base(k.Image), "-")
	config, err := os.ReadFile(filepath.Join(filepath.Dir(k.Image), "config-"+version))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(config)) {
		switch strings.TrimSpace(line) {
		case "CONFIG_MODULE_SIG_FORCE=y", "CONFIG_LOCK_DOWN_KERNEL_FORCE_INTEGRITY=y",
			"CONFIG_LOCK_DOWN_KERNEL_FORCE_CONFIDENTIALITY=y":
			return false
		}
	}
	return true
}

// A signed module ends with the signature, a struct module_signature, whose last four bytes are the signature's
// length, and a magic string (Linux, include/linux/module_signature.h).
const (
	signatureEnd    = "~Module signature appended~\n"
	signatureRecord = 12
)

// unsigned returns a module without its signature.
func unsigned(module []byte) []byte {
	rest, ok := bytes.CutSuffix(module, []byte(signatureEnd))
	if !ok || len(rest) < signatureRecord {
		return module
	}
	length := int64(binary.BigEndian.Uint32(rest[len(rest)-4:]))
	if length > int64(len(rest)-signatureRecord) {
		return module
	}
	return rest[:int64(len(rest)-signatureRecord)-length]
}
