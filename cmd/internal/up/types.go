//go:build !noplane

package up

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/cmd/internal/localcluster"
)

// settleTypes reads --types; an existing cluster keeps the types it was created with.
func (o *upOptions) settleTypes() error {
	kept, err := os.ReadFile(localcluster.TypesFile(o.DataDir))
	switch {
	case err == nil && o.typesFile == "":
		if o.types, err = localcluster.ParseTypes(kept); err != nil {
			return fmt.Errorf("%s, with which the cluster was made: %w; put it right, or make another cluster with --data-dir",
				localcluster.TypesFile(o.DataDir), err)
		}
		return nil
	// this is reported when the folder is opened
	case err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("the types with which the cluster was made: %w", err)
	case o.typesFile == "":
		return nil
	}
	text, err := os.ReadFile(o.typesFile)
	if err != nil {
		return fmt.Errorf("--types: %w", err)
	}
	if _, err := os.Stat(localcluster.RegionFile(o.DataDir)); err == nil && !bytes.Equal(text, kept) {
		return fmt.Errorf("--types %s: the cluster in %s was made with other types; leave the flag out, or make another "+
			"cluster with --data-dir", o.typesFile, o.DataDir)
	}
	if o.types, err = localcluster.ParseTypes(text); err != nil {
		return fmt.Errorf("--types %s: %w", o.typesFile, err)
	}
	o.typesText = text
	return nil
}

// offers returns what the region offers; nil for what AWS offers.
func (o *upOptions) offers() (*catalog.Region, error) {
	if o.types == nil {
		return nil, nil
	}
	return o.types.Region()
}

// keepTypes records the types for the next start.
func (o *upOptions) keepTypes() error {
	if o.typesText == nil {
		return nil
	}
	return os.WriteFile(localcluster.TypesFile(o.DataDir), o.typesText, 0o600)
}

// fit removes from a NodePool the requirements that custom types do not meet: EC2's categories and generations.
func (l *local) fit(object *unstructured.Unstructured) {
	path := []string{"spec", "template", "spec", "requirements"}
	requirements, found, _ := unstructured.NestedSlice(object.Object, path...)
	if l.o.types == nil || !found {
		return
	}
	requirements = slices.DeleteFunc(requirements, func(r any) bool {
		m, _ := r.(map[string]any)
		key, _ := m["key"].(string)
		return strings.HasPrefix(key, "karpenter.k8s.aws/")
	})
	_ = unstructured.SetNestedSlice(object.Object, requirements, path...) // it was just read as a slice
}
