//go:build !noplane

package up

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/internal/kit/osthread"
	"github.com/nodeless/nodeless/microvm/host"
)

// On a machine without TUN, microVMs are in user mode, and the log says what is missing.
func TestMachineWithoutTUN(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("without root microVMs are in user mode anyway")
	}
	var log bytes.Buffer
	err := osthread.Run(func() error {
		if err := errors.Join(unix.Unshare(unix.CLONE_NEWNET|unix.CLONE_NEWNS),
			unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""),
			unix.Mount("tmpfs", "/dev/net", "tmpfs", 0, "")); err != nil {
			return err
		}
		o := host.Options{Dir: t.TempDir()}
		l := &local{log: slog.New(slog.NewTextHandler(&log, nil))}
		if routed, err := l.connectMicroVMs(&o); routed != nil || o.Links != nil || err != nil {
			t.Errorf("the microVMs have a network: %v, %v, %v", routed, o.Links, err)
		}
		return nil
	})
	if err != nil {
		t.Skip("no namespaces here:", err)
	}
	for _, want := range []string{"microVMs have user-mode networking", "open /dev/net/tun: no such file or directory"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q but %s", want, log.String())
		}
	}
}
