//go:build !noplane

package up

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/nodeless/nodeless/cmd/internal/localcluster"
	"github.com/nodeless/nodeless/controller/automode"
	"github.com/nodeless/nodeless/region"
)

// autoModePools are the NodePools of --auto-mode if it has no value.
const autoModePools = "general-purpose,system"

// autoModeRole is the role of the nodes.
const autoModeRole = "nodeless-node"

// settleAutoMode makes an existing cluster keep the mode in which it was created.
func (o *upOptions) settleAutoMode(f *pflag.FlagSet) error {
	kept, err := os.ReadFile(localcluster.AutoModeFile(o.DataDir))
	if err == nil && !f.Changed("auto-mode") {
		o.autoMode = strings.TrimSpace(string(kept))
	}
	if _, made := os.Stat(localcluster.RegionFile(o.DataDir)); made == nil && err != nil && o.autoMode != "" {
		return fmt.Errorf("--auto-mode: the cluster in %s was made without it; make another cluster with --data-dir",
			o.DataDir)
	}
	if o.autoMode == "" {
		if err == nil {
			return fmt.Errorf("--auto-mode=: the cluster in %s was made with it; leave the flag out, or make another cluster "+
				"with --data-dir", o.DataDir)
		}
		return nil
	}
	if o.autoPools, err = automode.ParsePools(o.autoMode); err != nil {
		return fmt.Errorf("--auto-mode: %w", err)
	}
	if !f.Changed("addons") {
		o.addons = false // the nodes of Auto Mode include them
	}
	return nil
}

// keepAutoMode records the mode for the next start.
func (o *upOptions) keepAutoMode() error {
	if o.autoPools == nil {
		return nil
	}
	return os.WriteFile(localcluster.AutoModeFile(o.DataDir), []byte(o.autoMode+"\n"), 0o600)
}

// autoModeSettings returns the controller's settings; nil if the mode is off. Role and tags are the region's.
func (o *upOptions) autoModeSettings() *automode.Settings {
	if o.autoPools == nil {
		return nil
	}
	return &automode.Settings{
		Pools: o.autoPools, Class: automode.DiscoveredClass(autoModeRole, localcluster.EKSName),
		BuiltInCNI: true,
	}
}

// eksAutoMode returns what EKS reports about the mode; nil if it is off.
func (o *upOptions) eksAutoMode() *region.AutoMode {
	if o.autoPools == nil {
		return nil
	}
	return &region.AutoMode{NodePools: o.autoPools, NodeRole: autoModeRole}
}
