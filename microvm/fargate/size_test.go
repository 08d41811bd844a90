package fargate

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodeless/nodeless/api/v1alpha1"
)

func TestPublishedSizes(t *testing.T) {
	for name, c := range map[string]struct {
		containers []string
		want       string
	}{
		// The vectors of the reference, section 1.5.
		"nothing asked for [UG]":                           {[]string{""}, "0.25vCPU 0.5GB"},
		"1 vCPU and 8 GB [UG]":                             {[]string{"cpu=1 memory=8Gi"}, "2vCPU 9GB"},
		"500m and 500Mi, limits do not count [article]":    {[]string{"cpu=500m memory=500Mi limits.cpu=2 limits.memory=2Gi"}, "0.5vCPU 1GB"},
		"100m and 500Mi":                                   {[]string{"cpu=100m memory=500Mi"}, "0.25vCPU 1GB"},
		"256M decimal and 256Mi are 500.1Mi: CoreDNS fits": {[]string{"cpu=250m memory=256M"}, "0.25vCPU 0.5GB"},
		"256Mi fill the smallest row":                      {[]string{"cpu=250m memory=256Mi"}, "0.25vCPU 0.5GB"},
		"a byte more does not fit it":                      {[]string{"cpu=250m memory=268435457"}, "0.25vCPU 1GB"},
		"1 millicore more needs the next CPU":              {[]string{"cpu=251m"}, "0.5vCPU 1GB"},
		"0.25 vCPU has 2 GB at most":                       {[]string{"cpu=250m memory=2Gi"}, "0.5vCPU 3GB"},
		"0.5 vCPU has 4 GB at most":                        {[]string{"cpu=500m memory=4Gi"}, "1vCPU 5GB"},
		"8 vCPU go by 4 GB":                                {[]string{"cpu=8 memory=16Gi"}, "8vCPU 20GB"},
		"4 vCPU have 30 GB at most":                        {[]string{"cpu=4 memory=30Gi"}, "8vCPU 32GB"},
		"16 vCPU go by 8 GB":                               {[]string{"cpu=16 memory=100Gi"}, "16vCPU 104GB"},
		"the largest":                                      {[]string{"cpu=16 memory=122624Mi"}, "16vCPU 120GB"},
		"more memory than the largest":                     {[]string{"memory=122625Mi"}, ""},
		"more CPU than the largest":                        {[]string{"cpu=16001m"}, ""},
		"containers add up": {[]string{
			"cpu=300m memory=300Mi",
			"cpu=300m memory=300Mi",
		}, "1vCPU 2GB"},
		"the most of init containers counts if it is more": {
			[]string{"cpu=300m", "init cpu=2", "init cpu=1"},
			"2vCPU 4GB",
		},
		"each resource apart":     {[]string{"memory=1Gi", "init cpu=1"}, "1vCPU 2GB"},
		"sidecars add to the sum": {[]string{"cpu=300m", "sidecar cpu=300m"}, "1vCPU 2GB"},
		"init containers after a sidecar run beside it": {[]string{
			"cpu=100m", "sidecar cpu=300m",
			"init cpu=300m",
		}, "1vCPU 2GB"},
		"init containers before a sidecar do not": {[]string{
			"cpu=100m", "init cpu=300m",
			"sidecar cpu=300m",
		}, "0.5vCPU 1GB"},
		// the API server defaults requests to limits
		"limits count where no request is given: by admission": {[]string{"limits.cpu=2"}, "0.25vCPU 0.5GB"},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := Provision(&profile("p", "n").Spec, pod("n", c.containers...), 0)
			if ok != (c.want != "") || ok && got.String() != c.want {
				t.Errorf("got %s %v, want %q", got, ok, c.want)
			}
		})
	}
}

func TestTheTableHasFargatesRows(t *testing.T) {
	rows := map[int64]int{}
	for i, r := range Table() {
		rows[r.MilliCPU]++
		if i > 0 && (r.MilliCPU < Table()[i-1].MilliCPU || r.MilliCPU == Table()[i-1].MilliCPU &&
			r.MemoryBytes <= Table()[i-1].MemoryBytes) {
			t.Errorf("%s comes after %s", r, Table()[i-1])
		}
	}
	for cpu, want := range map[int64]int{250: 3, 500: 4, 1000: 7, 2000: 13, 4000: 23, 8000: 12, 16000: 12} {
		if rows[cpu] != want {
			t.Errorf("%d rows of %dm, want %d", rows[cpu], cpu, want)
		}
	}
}

func TestExactSizes(t *testing.T) {
	for name, c := range map[string]struct {
		containers []string
		want       string
	}{
		"what is asked for and the guest's own":   {[]string{"cpu=100m memory=432Mi"}, "0.1vCPU 0.5GB"},
		"nothing asked for":                       {[]string{""}, "0.01vCPU 0.329GB"},
		"any CPU":                                 {[]string{"cpu=1234m memory=944Mi"}, "1.234vCPU 1GB"},
		"more than Fargate has":                   {[]string{"cpu=32 memory=262064Mi"}, "32vCPU 256GB"},
		"the guest does not boot with less":       {[]string{"cpu=1m memory=1"}, "0.01vCPU 0.094GB"},
		"a byte less is as much":                  {[]string{"cpu=1 memory=452984831"}, "1vCPU 0.5GB"},
		"a byte above some MiB takes one more":    {[]string{"cpu=1 memory=2063597569"}, "1vCPU 2.001GB"},
		"requests that only init containers have": {[]string{"", "init cpu=2 memory=432Mi"}, "2vCPU 0.5GB"},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := Provision(&exact(profile("p", "n")).Spec, pod("n", c.containers...), GuestOverhead)
			if !ok || got.String() != c.want || got.MemoryBytes%mib != 0 {
				t.Errorf("got %s (%d bytes) %v, want %q", got, got.MemoryBytes, ok, c.want)
			}
		})
	}
}

func TestEphemeralStorage(t *testing.T) {
	for asked, want := range map[string]int64{
		"0": 20 * gib, "20Gi": 20 * gib, "100Gi": 115 * gib,
		"175Gi": 175*gib + 175*gib/10 + 5*gib, "176Gi": 0,
	} {
		got, ok := Provision(&profile("p", "n").Spec, pod("n", "ephemeral-storage="+asked), 0)
		if ok != (want > 0) || got.StorageBytes != want {
			t.Errorf("%s: %d %v, want %d", asked, got.StorageBytes, ok, want)
		}
	}
	p := profile("p", "n")
	less := resource.MustParse("1Gi")
	p.Spec.Storage = &v1alpha1.FargateProfileStorage{Ephemeral: &less}
	if got, _ := Provision(&p.Spec, pod("n", ""), 0); got.StorageBytes != gib {
		t.Errorf("the profile says 1Gi, got %d", got.StorageBytes)
	}
}
