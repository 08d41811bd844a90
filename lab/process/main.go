package process

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main is the main function of the programs below lab. run receives the arguments and a context that Ctrl-C cancels.
// Main exits with 130 when interrupted and with 1 after any other error.
func Main(name string, run func(ctx context.Context, args []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C kills
	err := run(ctx, os.Args[1:])
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case ctx.Err() != nil:
		fmt.Fprintf(os.Stderr, "%s: interrupted\n", name)
		os.Exit(130) //nolint:gocritic // nothing is left to stop
	default:
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}
