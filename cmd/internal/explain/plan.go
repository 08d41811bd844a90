//go:build !noplane

package explain

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nodeless/nodeless/cmd/internal/output"
	"github.com/nodeless/nodeless/cmd/internal/policyflags"
	"github.com/nodeless/nodeless/cmd/internal/program"
	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/explain/whatif"
)

type planOptions struct {
	cluster                target.Flags
	policy                 policyflags.Flags
	files, deletes, scales []string
	output                 string
	partial, detailed      bool
	boot, horizon          time.Duration
}

// Exit codes of --detailed-exitcode, as in terraform.
const (
	exitPlanFails   = 1
	exitPlanDiffers = 2
)

func newPlan() *cobra.Command {
	var o planOptions
	c := &cobra.Command{
		Use:   "plan",
		Short: "Preview a change of NodePools, classes or workloads",
		Long: `Forecasts a change: reads the cluster, applies the changed manifests to a copy,
and lets the engine decide on virtual time until nothing changes any more. It
prints which nodes would be removed and launched, in which order and under which
budgets, about how long that takes, which pods would be evicted, what a month
would cost, and which pods would stay pending. It changes nothing, needs no
controller, and only the right to read ("nodeless rbac --view").

It knows NodePools, EC2NodeClasses, NodeOverlays, DaemonSets and Deployments, and
Nodes that are deleted.

Prices are those of the simulated region for the cluster of "nodeless up", else
those of the built-in catalogue; --prices aws asks AWS. If the controller runs
with other policy flags than the defaults, pass them here, too.`,
		Example: `  # What would this NodePool change?
  nodeless plan -f pool.yaml

  # All manifests of a folder, with every step and pod
  nodeless plan -f pools/ -o wide

  # Delete a NodePool and scale a Deployment
  nodeless plan --delete nodepool/old --scale deployment/web=50 -n shop

  # In CI, against a captured cluster
  nodeless plan -f pool.yaml --from cluster.yaml --detailed-exitcode`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			differs, err := o.run(cmd)
			var broken *whatif.CannotWorkError
			switch {
			case errors.As(err, &broken):
				return &program.ExitError{Code: program.ExitCannotWork, Err: fmt.Errorf("plan: %w", err)}
			case err != nil && o.detailed:
				return &program.ExitError{Code: exitPlanFails, Err: err}
			case err == nil && differs && o.detailed:
				return &program.ExitError{Code: exitPlanDiffers}
			}
			return err
		},
	}
	o.addFlags(c.Flags())
	return c
}

func (o *planOptions) addFlags(f *pflag.FlagSet) {
	o.cluster.Add(f)
	o.cluster.AddNamespace(f)
	o.cluster.AddFrom(f)
	o.policy.Add(f)
	f.StringArrayVarP(&o.files, "filename", "f", nil, "file or folder of changed manifests, - for stdin; may be repeated")
	f.StringArrayVar(&o.deletes, "delete", nil,
		"object to delete, such as nodepool/old, node/ip-10-0-0-1 or daemonset/kube-system/agent; may be repeated")
	f.StringArrayVar(&o.scales, "scale", nil,
		"new size of a Deployment or of a static NodePool, such as deployment/web=50 or nodepool/warm=3; may "+
			"be repeated")
	f.StringVarP(&o.output, "output", "o", "", "wide, json, yaml, "+output.Forms+"; nothing for a summary")
	f.BoolVar(&o.partial, "partial", false, "continue without what you may not read, and say what that is")
	f.BoolVar(&o.detailed, "detailed-exitcode", false,
		"exit with 0 if nothing would change, 2 if something would, 3 if a changed pool or class cannot "+
			"launch nodes, 1 on other errors")
	f.DurationVar(&o.boot, "boot", 0,
		"time from a node's launch until pods run on it (default: as measured in the cluster, else 40s)")
	f.DurationVar(&o.horizon, "horizon", 24*time.Hour, "how far to look ahead")
}

func (o *planOptions) run(cmd *cobra.Command) (differs bool, err error) {
	if err := output.Check(o.output, "", "wide"); err != nil {
		return false, err
	}
	if o.boot < 0 || o.horizon <= 0 {
		return false, fmt.Errorf("--boot is from 0 on, --horizon above it")
	}
	policy, on, err := o.policy.Resolve()
	if err != nil {
		return false, err
	}
	if err := o.policy.Scheduler(&o.cluster.Scheduler); err != nil {
		return false, err
	}
	if len(o.files)+len(o.deletes)+len(o.scales) == 0 {
		return false, errors.New("nothing is to be changed: name manifests with -f, or objects to delete or scale " +
			"with --delete and --scale; see: nodeless plan --help")
	}
	changes, err := o.changes(cmd.InOrStdin())
	if err != nil {
		return false, err
	}
	c, t, err := o.cluster.Open(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr(),
		func(l *capture.Options) { l.Partial, l.Keep = o.partial, true })
	if err != nil {
		return false, err
	}
	out, err := whatif.Run(cmd.Context(),
		whatif.Input{
			Cluster: c, Changes: changes, Namespace: t.Namespace, Policy: policy, Gates: on, Boot: o.boot,
			Horizon: o.horizon,
		})
	if err != nil {
		return false, err
	}
	if output.IsData(o.output) {
		return out.Differs(), output.Rows(cmd.OutOrStdout(), o.output, out, "", true)
	}
	return out.Differs(), WritePlan(cmd.OutOrStdout(), out, o.output == "wide")
}

// changes returns the changes in files, then those of flags.
func (o *planOptions) changes(stdin io.Reader) ([]whatif.Change, error) {
	var out []whatif.Change
	for _, name := range o.files {
		files, err := program.ManifestFiles(name)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			more, err := readChanges(stdin, file)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		}
	}
	edits, err := whatif.Edits(o.deletes, o.scales)
	return append(out, edits...), err
}

func readChanges(stdin io.Reader, file string) ([]whatif.Change, error) {
	if file == "-" {
		return whatif.Manifests(stdin, file)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	defer f.Close()
	return whatif.Manifests(f, file)
}
