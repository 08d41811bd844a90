package vmm

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
)

// takesUnsigned reports whether the kernel loads modules without a signature, by the configuration that lies beside
// its image. An emulated guest takes as long to check the signatures as to load a quarter of the modules, and they
// guard nothing here: the host reads modules and kernel from the same place.
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

// signatureEnd ends a module with a signature, which is before it: the signature itself, then struct module_signature
// of 12 bytes, the last four of them the signature's length (Linux, include/linux/module_signature.h).
const signatureEnd = "~Module signature appended~\n"

const signatureRecord = 12

// unsigned is a module without its signature.
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
