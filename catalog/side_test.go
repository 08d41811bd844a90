package catalog

import "testing"

func TestVolumesCostWhatTheirSizeAndSpeedDo(t *testing.T) {
	for _, c := range []struct {
		name   string
		region string
		volume Volume
		want   int64 // micro-dollars per hour
	}{
		{"the default root volume", "us-east-1", Volume{Type: "gp3", GiB: 20}, 2_192},
		{"the same in São Paulo", "sa-east-1", Volume{Type: "gp3", GiB: 20}, 4_164},
		{"speed that comes with gp3", "us-west-2", Volume{Type: "gp3", GiB: 20, IOPS: 3000, MiBps: 125}, 2_192},
		{"speed beyond it", "us-east-1", Volume{Type: "gp3", GiB: 100, IOPS: 4000, MiBps: 225}, 23_288},
		{"each provisioned operation of io2", "us-east-1", Volume{Type: "io2", GiB: 100, IOPS: 1000}, 106_164},
		{"a slow disk", "us-east-1", Volume{Type: "sc1", GiB: 125}, 2_568},
		{"a region and a type to come", "mars-north-1", Volume{Type: "gp9", GiB: 20}, 2_192},
		{"no size", "us-east-1", Volume{Type: "gp3", GiB: -1}, 0},
	} {
		if got := VolumePrice(c.region, c.volume); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}
