package view_test

import (
	"slices"
	"testing"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/view"
)

func TestHostileTextIsEscaped(t *testing.T) {
	for text, want := range map[string]string{
		"web-1":                   "web-1",
		"\x1b[31mred\x1b[m":       `\x1b[31mred\x1b[m`,
		"a\u202etxt.exe":          `a\u202etxt.exe`,
		"a\u2066b\u200bc\ufeff":   `a\u2066b\u200bc\ufeff`,
		"bell\a tab\t\r\n":        `bell\a tab\t\r\n`,
		"csi\u009b2J":             `csi\u009b2J`,
		"not\xfftext":             `not\xfftext`,
		"nbsp\u00a0":              `nbsp\u00a0`,
		"한국어 ü 🎉":                 "한국어 ü 🎉",
		"👩\u200d💻 ❤\ufe0f\u200d🔥": "👩\u200d💻 ❤\ufe0f\u200d🔥",
		"می\u200cخواهم क्\u200dष": "می\u200cخواهم क्\u200dष",
		"a\u200db \u200d👩":        `a\u200db \u200d👩`,
		"👩\u200d\u200d💻 é\u200c":  `👩\u200d\u200d💻 é\u200c`,
		"👩\u200d\xff\u200d💻":      `👩\u200d\xff\u200d💻`,
		"م\u200eم\u202eم\u2060م":  `م\u200eم\u202eم\u2060م`,
	} {
		if got := view.Escape(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func TestAmountsAndPricesInFewCharacters(t *testing.T) {
	for got, want := range map[string]string{
		view.Amount("cpu", 1500):          "1.5",
		view.Amount("cpu", 16000):         "16",
		view.Amount("memory", 30<<30):     "30Gi",
		view.Amount("memory", 1536<<20):   "1.5Gi",
		view.Amount("pods", 58):           "58",
		view.Quantity("cpu", 1500):        "1500m",
		view.Quantity("memory", 1536<<20): "1536Mi",
		view.PerHour(1234567_890000):      "$1,234,567.8900",
		view.PerHour(98_000):              "$0.0980",
		view.PerMonth(1_369_862):          "$1,000",
		view.Percent(view.Share(1, 3)):    "33%",
		view.Percent(view.Share(1, 0)):    "0%",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestPeopleCountNaturally(t *testing.T) {
	list := []string{"ip-10-0-10-1", "ip-10-0-9-1", "ip-10-0-9", "b", "", "a2", "a10", "a02"}
	slices.SortFunc(list, view.Natural)
	want := []string{"", "a2", "a02", "a10", "b", "ip-10-0-9", "ip-10-0-9-1", "ip-10-0-10-1"}
	if !slices.Equal(list, want) {
		t.Errorf("got %q, want %q", list, want)
	}
}

func TestPricesAreTheCatalogues(t *testing.T) {
	list, _ := catalog.Of("us-west-2").OnDemand("m5.large")
	spot, _ := catalog.Of("us-west-2").SpotAverage("us-west-2a", "m5.large")
	if list <= 0 || spot <= 0 || spot >= list {
		t.Fatalf("the catalogue says %d and %d", list, spot)
	}
	type labels = map[string]string
	for _, c := range []struct {
		labels labels
		want   int64
	}{
		{labels{"node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/region": "us-west-2"}, list},
		{labels{
			"node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "us-west-2a",
			"karpenter.sh/capacity-type": "on-demand",
		}, list},
		{labels{
			"node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "us-west-2a",
			"karpenter.sh/capacity-type": "spot",
		}, spot},
		{labels{
			"node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "us-west-2a",
			"eks.amazonaws.com/capacityType": "SPOT",
		}, spot},
		{labels{
			"node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "us-west-2a",
			"karpenter.sh/capacity-type": "reserved",
		}, 0},
		{labels{
			"node.kubernetes.io/instance-type": "p5.48xlarge", "topology.kubernetes.io/zone": "us-west-2a",
			"eks.amazonaws.com/capacityType": "CAPACITY_BLOCK",
		}, 0},
		{labels{
			"node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "us-west-2a",
			view.LabelPrice: "0.25",
		}, 250_000},
		{labels{
			"node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "us-west-2a",
			view.LabelPrice: "free",
		}, list},
		{labels{"node.kubernetes.io/instance-type": "n2-standard-4", "topology.kubernetes.io/zone": "europe-west4-a"}, 0},
		{labels{"eks.amazonaws.com/compute-type": "fargate", "topology.kubernetes.io/zone": "us-west-2a"}, 0},
		{nil, 0},
	} {
		if got := view.PriceOf(c.labels); got != c.want {
			t.Errorf("%v: got %d, want %d", c.labels, got, c.want)
		}
	}
}
