package main

import (
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
)

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("say which benchmark: engine, traces, growth, sim or pareto"))
	}
	run := map[string]func([]string) error{
		"engine": benchEngine, "traces": benchTraces, "growth": benchGrowth,
		"sim": benchSim, "pareto": benchPareto,
	}[os.Args[1]]
	if run == nil {
		fail(fmt.Errorf("there is no benchmark %q: say engine, traces, growth, sim or pareto", os.Args[1]))
	}
	if err := run(os.Args[2:]); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}

// progress prints what is running: Karpenter takes minutes for many pods.
func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// numbers is a flag that holds numbers separated by commas.
type numbers []int

func (n *numbers) String() string { return strings.Trim(fmt.Sprint([]int(*n)), "[]") }

func (n *numbers) Set(text string) error {
	*n = nil
	for part := range strings.SplitSeq(text, ",") {
		i, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || i < 1 {
			return fmt.Errorf("%q is not a positive number", part)
		}
		*n = append(*n, i)
	}
	return nil
}

func numbersFlag(f *flag.FlagSet, name, usage string, values ...int) *numbers {
	n := numbers(values)
	f.Var(&n, name, usage)
	return &n
}

// profiled runs f and writes its CPU profile, if a file is named.
func profiled(file string, f func() error) error {
	if file == "" {
		return f()
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := pprof.StartCPUProfile(out); err != nil {
		return fmt.Errorf("profile to %s: %w", file, err)
	}
	defer pprof.StopCPUProfile()
	return f()
}
