package catalog

import "testing"

func TestAnHourOfFargate(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		region                    string
		milliCPU, memory, storage int64
		want                      int64
	}{
		{"us-west-2", 250, gib / 2, 20 * gib, 12343}, // 0.25 × $0.04048 + 0.5 × $0.004445
		{"us-east-1", 1000, 2 * gib, 0, 49370},
		{"us-east-1", 1000, 2 * gib, 120 * gib, 60470}, // and 100 GB × $0.000111
		{"ap-northeast-2", 500, gib, 20 * gib, 28390},  // 0.5 × $0.04656 + 1 × $0.00511: the article's pod of 0.5vCPU 1GB
		{"sa-east-1", 16000, 120 * gib, 0, 2025600},
	} {
		if got, ok := FargateHour(c.region, c.milliCPU, c.memory, c.storage); !ok || got != c.want {
			t.Errorf("%+v: %d, %v", c, got, ok)
		}
	}
	if _, ok := FargateHour("xx-nowhere-1", 250, gib, 0); ok {
		t.Error("the rates of every region are known")
	}
}
