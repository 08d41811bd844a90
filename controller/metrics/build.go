package metrics

import (
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// SetBuild tells which program this is.
func SetBuild(r prometheus.Registerer, version string) {
	commit := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				commit = s.Value
			}
		}
	}
	m := maker{r}
	m.gauge("karpenter_build_info", "1, with the version of this program.", "version", "goversion", "goarch", "commit").
		WithLabelValues(version, runtime.Version(), runtime.GOARCH, commit).Set(1)
}
