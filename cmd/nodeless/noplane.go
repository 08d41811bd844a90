//go:build noplane

package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/nodeless/nodeless/view/web"
)

// errNoPlane is what the commands of the embedded control plane say in a build without it.
var errNoPlane = errors.New("this build has no control plane and no microVMs in it, only the controller and what asks it (build tag noplane); " +
	"the whole program is made by \"make build\"")

// newUp, newKubectl, newImage and newHost stay, so that nobody has to guess why the commands the documentation names
// are not there.
func newUp() *cobra.Command {
	return absent("up", "Run a whole cluster on this machine (not in this build)")
}

func newKubectl() *cobra.Command {
	return absent("kubectl", "kubectl, built in (not in this build)")
}

func newImage() *cobra.Command {
	return absent("image", "Container images of this machine (not in this build)")
}

func newHost() *cobra.Command {
	return absent("host", "Make this machine a host of microVMs (not in this build)")
}

func newPlan() *cobra.Command {
	return absent("plan", "What a change would do (not in this build)")
}

// forecast is nobody's: plan is not in this build.
func (*page) forecast() func(context.Context, web.WhatIf) (any, error) { return nil }

// endMicroVMs has nothing to end: this build starts no microVMs.
func endMicroVMs(context.Context, string) (int, error) { return 0, nil }

func absent(use, short string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error { return errNoPlane },
	}
}

// completeKubectl has nothing to complete.
func completeKubectl(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}
