//go:build !noplane

package up

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/nodeless/nodeless/cmd/internal/localcluster"
)

// settledMode returns the options of a cluster in a folder after its flags were parsed.
func settledMode(dir string, flags ...string) (*upOptions, error) {
	o := &upOptions{Selector: localcluster.Selector{DataDir: dir}}
	f := pflag.NewFlagSet("up", pflag.ContinueOnError)
	f.BoolVar(&o.addons, "addons", true, "")
	f.StringVar(&o.autoMode, "auto-mode", "", "")
	f.Lookup("auto-mode").NoOptDefVal = autoModePools
	if err := f.Parse(flags); err != nil {
		return nil, err
	}
	return o, o.settleAutoMode(f)
}

func TestAutoModeHasThePoolsOfItsFlagAndIsKept(t *testing.T) {
	for flag, want := range map[string][]string{
		"--auto-mode": {"general-purpose", "system"}, "--auto-mode=general-purpose": {"general-purpose"},
	} {
		dir := t.TempDir()
		o, err := settledMode(dir, flag)
		if err != nil {
			t.Fatal(err)
		}
		if got := o.autoModeSettings().Pools; !slices.Equal(got, want) || !slices.Equal(o.eksAutoMode().NodePools, want) || o.addons {
			t.Errorf("%s: pools %v, EKS tells %v, add-ons %t", flag, got, o.eksAutoMode(), o.addons)
		}
		write(t, localcluster.RegionFile(dir), "us-west-2\n")
		if err := o.keepAutoMode(); err != nil {
			t.Fatal(err)
		}
		if again, err := settledMode(dir, "--addons"); err != nil || !slices.Equal(again.autoPools, want) || !again.addons {
			t.Errorf("%s, started again with add-ons: %v, %v", flag, again, err)
		}
		if _, err := settledMode(dir, "--auto-mode="); err == nil || !strings.Contains(err.Error(), "was made with it") {
			t.Errorf("%s, switched off later: %v", flag, err)
		}
	}
}

func TestAutoModeOfNoBuiltInPoolOrOfAnotherClusterIsRefused(t *testing.T) {
	if _, err := settledMode(t.TempDir(), "--auto-mode=gpu"); err == nil || !strings.Contains(err.Error(), "--auto-mode") {
		t.Errorf("pool gpu: %v", err)
	}
	dir := t.TempDir()
	write(t, localcluster.RegionFile(dir), "us-west-2\n")
	if _, err := settledMode(dir, "--auto-mode"); err == nil || !strings.Contains(err.Error(), "was made without it") {
		t.Errorf("a cluster that was made without it: %v", err)
	}
	plain, err := settledMode(dir)
	if err != nil || plain.autoModeSettings() != nil || plain.eksAutoMode() != nil || !plain.addons {
		t.Errorf("without the flag: %+v, %v", plain, err)
	}
}
