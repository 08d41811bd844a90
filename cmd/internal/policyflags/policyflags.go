// Package policyflags holds the flags that determine how the engine decides. Every command that uses the engine has
// them.
package policyflags

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/nodeless/nodeless/controller/gates"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// Flags are the values of the flags.
type Flags struct {
	PreferencePolicy string  // Priced, Respect or Ignore; Karpenter knows the last two
	MinValuesPolicy  string  // Strict or BestEffort
	PreferencePrice  float64 // dollars per hour for a preference of weight 100, when Priced
	Preflight        string  // off, warn or enforce
	Prices
	PriorityCutoff int32 // noCutoff = none
	featureGates   string
	scheduler      string // --scheduler-config
}

// Prices are the parts of the objective that users may set, in dollars.
type Prices struct {
	NodeFee   float64 // per node-hour
	WaitPrice float64 // per pod-hour Pending
	MovePrice float64 // per evicted pod
}

const (
	noCutoff   = math.MinInt32 // nodes are launched for pods of any priority
	maxDollars = 10_000        // more than any instance costs per hour
)

// Add adds the flags of the objective.
func (p *Prices) Add(f *pflag.FlagSet) {
	f.Float64Var(&p.NodeFee, "node-fee", 0,
		"dollars per hour that each node costs beside its instance, volumes and public addresses, such as licences of agents")
	f.Float64Var(&p.WaitPrice, "wait-price", model.DefaultWaitPrice.Dollars(),
		"dollars per hour for each Pending pod: nodes are launched ahead of CronJobs' runs and of expiry where they would "+
			"idle for less than that; 0 launches none ahead")
	f.Float64Var(&p.MovePrice, "move-price", model.DefaultMovePrice.Dollars(),
		"dollars for each pod that consolidation evicts: a higher price moves fewer pods. The annotation "+
			"controller.kubernetes.io/pod-deletion-cost makes some pods dearer to move than others")
}

// Apply sets the prices of the policy. The error names the flag.
func (p *Prices) Apply(to *model.Policy) (err error) {
	if to.NodeFee, err = price("node-fee", "dollars per node-hour", p.NodeFee); err != nil {
		return err
	}
	if to.WaitPrice, err = price("wait-price", "dollars per pod-hour", p.WaitPrice); err != nil {
		return err
	}
	to.MovePrice, err = price("move-price", "dollars per evicted pod", p.MovePrice)
	return err
}

// Add adds the flags.
func (c *Flags) Add(f *pflag.FlagSet) {
	f.StringVar(&c.PreferencePolicy, "preference-policy", "Priced",
		"how preferred affinities, PreferNoSchedule taints and ScheduleAnyway spreads are treated: "+
			"Priced = kept as long as they cost no more than --preference-price, Respect = kept if at all possible, Ignore "+
			"= ignored")
	f.StringVar(&c.MinValuesPolicy, "min-values-policy", "Strict",
		"what happens when a node cannot keep minValues of its NodePool: Strict = it is not launched, "+
			"BestEffort = minValues are lowered if its pods would otherwise stay pending")
	f.Float64Var(&c.PreferencePrice, "preference-price", model.DefaultPreferencePrice.Dollars(),
		"dollars per hour that keeping a preference of weight 100 may cost; less for smaller weights")
	c.Prices.Add(f)
	f.Int32Var(&c.PriorityCutoff, "priority-cutoff", noCutoff,
		"pods of lower priority may use existing nodes, but no node is launched for them")
	f.Lookup("priority-cutoff").DefValue = "none"
	f.StringVar(&c.Preflight, "preflight", "warn",
		"what happens when nodes would take more pods than the VPC CNI gives them addresses for: off = nothing, warn = the "+
			"NodePool says so, enforce = they are not launched; no pods are moved either while the VPC CNI rolls or critical "+
			"pods wait, and new nodes keep two slots free")
	f.StringVar(&c.scheduler, "scheduler-config", "",
		"configuration of the cluster's kube-scheduler, or the file that has it: a KubeSchedulerConfiguration, or "+
			"podTopologySpread.defaultConstraints as Karpenter takes it. Pods of its profiles get nodes, by its default "+
			"topology spread constraints")
	f.StringVar(&c.featureGates, "feature-gates", gates.Default().String(),
		"optional features to turn on or off")
}

// Resolve returns the engine's policy and the feature gates. The error names the flag.
func (c *Flags) Resolve() (model.Policy, gates.Gates, error) {
	policy, err := c.policy()
	if err != nil {
		return policy, gates.Gates{}, err
	}
	on, unknown, err := gates.Parse(c.featureGates)
	if err != nil {
		return policy, on, fmt.Errorf("--feature-gates: %w", err)
	}
	if len(unknown) > 0 { // they may belong to another version
		slog.Warn("unknown feature gates are ignored", "gates", unknown)
	}
	policy.SpotToSpot = on.SpotToSpotConsolidation
	return policy, on, nil
}

// SchedulerDocument returns the document that --scheduler-config is or names; an empty one if it is not given.
func (c *Flags) SchedulerDocument() ([]byte, error) {
	if c.scheduler == "" || strings.ContainsAny(c.scheduler, "\n{") || strings.Contains(c.scheduler, ": ") {
		return []byte(c.scheduler), nil
	}
	document, err := os.ReadFile(c.scheduler)
	if err != nil {
		return nil, fmt.Errorf("--scheduler-config: it is neither a document nor a file that can be read: %w", err)
	}
	return document, nil
}

// Scheduler applies --scheduler-config, if it is given. The error names the flag and the field.
func (c *Flags) Scheduler(to *translate.SchedulerConfig) error {
	document, err := c.SchedulerDocument()
	if err != nil || len(document) == 0 {
		return err
	}
	if *to, err = translate.ParseSchedulerConfig(document); err != nil {
		return fmt.Errorf("--scheduler-config: %w", err)
	}
	return nil
}

func (c *Flags) policy() (p model.Policy, err error) {
	switch strings.ToLower(c.PreferencePolicy) {
	case "", "priced":
		p.Preferences = model.Priced
	case "respect":
		p.Preferences = model.Respect
	case "ignore":
		p.Preferences = model.Ignore
	default:
		return p, fmt.Errorf("--preference-policy %q: use Priced, Respect or Ignore", c.PreferencePolicy)
	}
	switch strings.ToLower(c.MinValuesPolicy) {
	case "", "strict":
		p.MinValues = model.Strict
	case "besteffort":
		p.MinValues = model.BestEffort
	default:
		return p, fmt.Errorf("--min-values-policy %q: use Strict or BestEffort", c.MinValuesPolicy)
	}
	switch strings.ToLower(c.Preflight) {
	case "", "off":
		p.Preflight = model.Unchecked
	case "warn":
		p.Preflight = model.Warn
	case "enforce":
		p.Preflight = model.Enforce
	default:
		return p, fmt.Errorf("--preflight %q: use off, warn or enforce", c.Preflight)
	}
	if p.PreferencePrice, err = price("preference-price", "dollars per hour", c.PreferencePrice); err != nil {
		return p, err
	}
	if err = c.Apply(&p); err != nil {
		return p, err
	}
	if c.PriorityCutoff != noCutoff {
		p.PriorityCutoff, p.HasPriorityCutoff = c.PriorityCutoff, true
	}
	return p, nil
}

func price(flag, unit string, dollars float64) (model.Price, error) {
	if !(dollars >= 0 && dollars <= maxDollars) { // false for NaN, too
		return 0, fmt.Errorf("--%s %v: use %s from 0 to %d", flag, dollars, unit, maxDollars)
	}
	return model.Price(math.Round(dollars * 1e6)), nil
}
