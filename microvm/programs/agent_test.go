package programs

import (
	"bytes"
	"errors"
	"os"
	"testing"
)

// The binary either embeds the guest's programs completely, or says how to get them; `make build` ensures the former.
func TestTheProgramsAreEmbedded(t *testing.T) {
	found, err := Programs()
	if _, statErr := os.Stat("programs/init.gz"); statErr != nil {
		if !errors.Is(err, ErrNotBuilt) {
			t.Fatal(err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"init": found.Init, "enter": found.Enter} {
		if !bytes.HasPrefix(b, []byte("\x7fELF")) || len(b) < 1<<20 {
			t.Errorf("%s is no program: %d bytes", name, len(b))
		}
	}
}
