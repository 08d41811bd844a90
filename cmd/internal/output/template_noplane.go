//go:build noplane

package output

import "errors"

// templatePrinter fails in the build without the control plane: package text/template calls methods by name, so that
// the linker would keep every method of every type, which doubles the program's size.
func templatePrinter(string) (printer, error) {
	return nil, errors.New("this build has no templates: use jsonpath=…, or the whole program, nodeless")
}
