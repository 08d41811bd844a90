package main

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/nodeless/nodeless/cmd/internal/program"
)

// Messages of the plugin on stderr use the name that people type.
func TestThePluginsNotesSayWhatPeopleType(t *testing.T) {
	for said, want := range map[string]string{
		"nodeless: decisions: no recorded decision matches\n":                          "kubectl nodeless: decisions: no recorded decision matches\n",
		"nodeless: top: no rights: an administrator allows it: nodeless rbac --view\n": "kubectl nodeless: top: no rights: an administrator allows it: kubectl nodeless rbac --view\n",
		"cluster.yaml: passed over: 3 Secret\n":                                        "cluster.yaml: passed over: 3 Secret\n",
		"the page of nodeless is at /var/nodeless\n":                                   "the page of nodeless is at /var/nodeless\n",
	} {
		var out bytes.Buffer
		root := newRoot()
		root.SetErr(&out)
		program.CallItself("kubectl nodeless", root)
		if n, err := fmt.Fprint(root.ErrOrStderr(), said); err != nil || n != len(said) || out.String() != want {
			t.Errorf("%q is said as %q, want %q (%v)", said, out.String(), want, err)
		}
	}
}
