package scenario

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/engine/model"
)

// Any text is either rejected with an error that names a line, or is a cluster that can be saved and read again.
func FuzzScenario(f *testing.F) {
	f.Add("type c2 cpu=2 offers(a spot 0.04)\npool p require(arch=arm64@2)\npods 2 web cpu=1 any(zone=a) prefer(1 zone=b)\nnode n type=c2 runs(a)")
	f.Add("(")
	f.Add("pods 1 a blocked(\"x\\\"y\") volume(\"a b\" alone: zone=a; rack=\"1 2\")\npod \"x/y\"/z as=a uid=u age=none")
	f.Add("now 2020-01-01T00:00:00Z\npolicy cutoff=-5 solver=first-fit preferences=respect node-fee=1e3")
	for _, pattern := range []string{"../../engine/testdata/*.txt", "../../engine/testdata/pending/*.txt"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			cluster, _, _ := strings.Cut(string(raw), "\n-----")
			f.Add(cluster)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 5000 || regexp.MustCompile(`pods\s+\+?[0-9]{4}`).MatchString(text) {
			t.Skip("takes long")
		}
		s, policy, err := Parse(text)
		if err != nil {
			if !strings.Contains(err.Error(), "line ") {
				t.Fatalf("%v names no line", err)
			}
			return
		}
		comesBack(t, Case{Snapshot: s, Policy: policy})
	})
}

// Exactly formatted amounts are parsed exactly, rounded ones approximately, and no text is an amount by accident.
func FuzzQuantities(f *testing.F) {
	for _, n := range []int64{0, 1, -1, 999, 1000, 1024, 1 << 30, 14<<30 + 300<<20, math.MaxInt64, math.MinInt64, -808, 5 << 40} {
		f.Add(n, exactly("memory", n))
	}
	for _, text := range []string{"1.5Gi", "100m", "1e3", "NaN", "inf", "-0", "0x10", "1_000", "9E", "9Ei", "1e400", "", "m", "Ki", "1e-400", "0.1m", "--1", ".5", "5."} {
		f.Add(int64(7), text)
	}
	f.Fuzz(func(t *testing.T, n int64, text string) {
		for _, resource := range []string{"cpu", "memory", "hugepages-2Mi", "nvidia.com/gpu"} {
			if back, err := amount(resource, exactly(resource, n)); err != nil || back != n {
				t.Errorf("%s %d is written %s and read %d, %v", resource, n, exactly(resource, n), back, err)
			}
			about, err := amount(resource, model.Quantity(resource, n))
			if err != nil || math.Abs(float64(about)-float64(n)) > math.Abs(float64(n))/100 {
				t.Errorf("%s %d is shown as %s, which is %d, %v", resource, n, model.Quantity(resource, n), about, err)
			}
			read, err := amount(resource, text)
			if err != nil {
				continue
			}
			if again, err := amount(resource, exactly(resource, read)); err != nil || again != read {
				t.Errorf("%s=%s is %d, then %d, %v", resource, text, read, again, err)
			}
			if negative := strings.HasPrefix(text, "-"); negative && read > 0 || !negative && read < 0 {
				t.Errorf("%s=%s is %d", resource, text, read)
			}
		}
		p := model.Price(n)
		if back, err := price(dollars(p)); err != nil || back != p {
			t.Errorf("price %d is written %s and read %d, %v", n, dollars(p), back, err)
		}
		if read, err := price(text); err == nil {
			if again, err := price(dollars(read)); err != nil || again != read {
				t.Errorf("price %s is %d, then %d, %v", text, read, again, err)
			}
		}
	})
}

// exactly formats an amount so that amount parses the same value.
func exactly(resource string, n int64) string {
	switch {
	case resource == "cpu" && n%1000 == 0:
		return strconv.FormatInt(n/1000, 10)
	case resource == "cpu":
		return strconv.FormatInt(n, 10) + "m"
	case resource == "memory", resource == "ephemeral-storage", strings.HasPrefix(resource, "hugepages-"):
		for _, u := range []int{3, 2, 1, 0} {
			if n != 0 && n%units[u].factor == 0 {
				return strconv.FormatInt(n/units[u].factor, 10) + units[u].suffix
			}
		}
	}
	return strconv.FormatInt(n, 10)
}

// dollars formats a price so that price parses the same value.
func dollars(p model.Price) string {
	digits := strconv.FormatInt(int64(p), 10)
	sign := ""
	if p < 0 {
		sign, digits = "-", digits[1:]
	}
	if short := 7 - len(digits); short > 0 {
		digits = strings.Repeat("0", short) + digits
	}
	whole, fraction := digits[:len(digits)-6], strings.TrimRight(digits[len(digits)-6:], "0")
	if fraction == "" {
		return sign + whole
	}
	return sign + whole + "." + fraction
}
