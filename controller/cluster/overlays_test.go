package cluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// market returns two types in two zones, on demand at $0.10 and $0.20, spot at half that price.
func market() []model.InstanceType {
	var out []model.InstanceType
	for i, name := range []string{"c5.large", "c5.xlarge"} {
		t := model.InstanceType{
			Name: name, Requirements: model.NewRequirements(model.OneOf(model.LabelInstanceType, name),
				model.OneOf(model.LabelArch, "amd64")),
			Capacity:    model.Resources{model.CPU: 2000, model.Memory: 4 << 30},
			Allocatable: model.Resources{model.CPU: 1900, model.Memory: 3 << 30},
		}
		for _, zone := range []string{"a", "b"} {
			price := model.Price(100_000 * (i + 1))
			t.Offerings = append(t.Offerings,
				model.Offering{Zone: zone, CapacityType: model.OnDemand, Price: price, Available: true},
				model.Offering{Zone: zone, CapacityType: model.Spot, Price: price / 2, Available: true})
		}
		out = append(out, t)
	}
	return out
}

func overlaidPools() []overlaidPool {
	return []overlaidPool{
		{Name: "team", Labels: map[string]string{"team": "x"}, Types: market()},
		{Name: "other", Types: market()},
	}
}

// overlayOf returns an overlay; price, adjustment and capacity are left out if "", requirements are key=value.
func overlayOf(name string, weight int32, price, adjust, gpus string, requirements ...string) *v1alpha1.NodeOverlay {
	o := &v1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if weight > 0 {
		o.Spec.Weight = &weight
	}
	if price != "" {
		o.Spec.Price = &price
	}
	if adjust != "" {
		o.Spec.PriceAdjustment = &adjust
	}
	if gpus != "" {
		o.Spec.Capacity = corev1.ResourceList{"example.com/gpu": resource.MustParse(gpus)}
	}
	for _, r := range requirements {
		key, value, _ := strings.Cut(r, "=")
		o.Spec.Requirements = append(o.Spec.Requirements,
			v1alpha1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}})
	}
	return o
}

func priceOf(f *OverlayEffect, typ, zone, capacityType string) model.Price {
	for _, t := range f.Types {
		for _, o := range t.Offerings {
			if t.Name == typ && o.Zone == zone && o.CapacityType == capacityType {
				return o.Price
			}
		}
	}
	return -1
}

func TestPricesAreSetAndAdjusted(t *testing.T) {
	for _, c := range []struct {
		price, adjust string
		want          model.Price
	}{
		{price: "0.25", want: 250_000},
		{price: "1", want: 1_000_000},
		{price: "0", want: 1},
		{adjust: "+0.05", want: 150_000},
		{adjust: "-0.05", want: 50_000},
		{adjust: "-0.5", want: 1},
		{adjust: "+10%", want: 110_000},
		{adjust: "-15%", want: 85_000},
		{adjust: "-100%", want: 1},
		{adjust: "+.5%", want: 100_500},
		{adjust: "+99999999999999999999", want: 1_000_000_000_000},
	} {
		effects, verdicts := evaluateOverlays(translate.NewNames(), overlaidPools(), []*v1alpha1.NodeOverlay{
			overlayOf("o", 0, c.price, c.adjust, "", "node.kubernetes.io/instance-type=c5.large",
				"karpenter.sh/capacity-type=on-demand", "topology.kubernetes.io/zone=a"),
		})
		f := effects["team"]
		if verdicts["o"] != (OverlayVerdict{}) || f == nil || effects["other"] == nil {
			t.Fatalf("%+v: %v", c, verdicts)
		}
		if got := priceOf(f, "c5.large", "a", model.OnDemand); got != c.want {
			t.Errorf("%s%s: %d, want %d", c.price, c.adjust, got, c.want)
		}
		if priceOf(f, "c5.large", "b", model.OnDemand) != 100_000 || priceOf(f, "c5.large", "a", model.Spot) != 50_000 ||
			len(f.Prices) != 1 {
			t.Errorf("%s%s: another offering has another price: %v", c.price, c.adjust, f.Prices)
		}
	}
}

func TestAnOverlayIsForThePoolsWhoseLabelsItNames(t *testing.T) {
	effects, _ := evaluateOverlays(translate.NewNames(), overlaidPools(),
		[]*v1alpha1.NodeOverlay{overlayOf("o", 0, "1", "", "", "team=x")})
	if effects["team"] == nil || effects["other"] != nil {
		t.Errorf("%v", effects)
	}
	effects, _ = evaluateOverlays(translate.NewNames(), overlaidPools(),
		[]*v1alpha1.NodeOverlay{overlayOf("o", 0, "1", "", "", "karpenter.sh/nodepool=other")})
	if effects["team"] != nil || effects["other"] == nil {
		t.Errorf("%v", effects)
	}
}

func TestResourcesAreThereBesides(t *testing.T) {
	names, before := translate.NewNames(), overlaidPools()
	effects, _ := evaluateOverlays(names, before,
		[]*v1alpha1.NodeOverlay{overlayOf("o", 0, "", "", "4", "karpenter.sh/capacity-type=spot")})
	gpu, _ := names.Index("example.com/gpu")
	for _, typ := range effects["team"].Types {
		if typ.Capacity[gpu] != 4 || typ.Allocatable[gpu] != 4 || typ.Allocatable[model.CPU] != 1900 {
			t.Errorf("%+v", typ)
		}
	}
	if before[0].Types[0].Capacity[gpu] != 0 {
		t.Error("what the cloud says was changed")
	}
	if &effects["team"].Types[0].Offerings[0] != &before[0].Types[0].Offerings[0] {
		t.Error("offerings are copied though nothing about them is new")
	}
}

func TestTheHeavierOverlayWins(t *testing.T) {
	all := []*v1alpha1.NodeOverlay{
		overlayOf("light", 1, "1", "", "1"), overlayOf("heavy", 9, "2", "", ""),
		overlayOf("none", 0, "", "+5", "7"),
	}
	names := translate.NewNames()
	effects, verdicts := evaluateOverlays(names, overlaidPools(), all)
	gpu, _ := names.Index("example.com/gpu")
	for name, v := range verdicts {
		if v != (OverlayVerdict{}) {
			t.Errorf("%s: %v", name, v)
		}
	}
	if f := effects["team"]; priceOf(f, "c5.large", "a", model.Spot) != 2_000_000 || f.Types[0].Capacity[gpu] != 1 {
		t.Errorf("%+v", f)
	}
}

func TestOverlaysOfOneWeightMustNotSayTheSameThing(t *testing.T) {
	// By name in descending order: z comes first, y conflicts with it and is left out everywhere, x sets something
	// else.
	y := overlayOf("y", 3, "2", "", "2", "node.kubernetes.io/instance-type=c5.large")
	effects, verdicts := evaluateOverlays(translate.NewNames(), overlaidPools(), []*v1alpha1.NodeOverlay{
		overlayOf("x", 3, "", "", "1"), y, overlayOf("z", 3, "1", "", "", "team=x"),
	})
	v := verdicts["y"]
	for _, want := range []string{`NodeOverlay "z"`, "the price of c5.large", `NodePool "team"`, "different weights"} {
		if v.Reason != "Conflict" || !strings.HasPrefix(v.Message, "conflict with another overlay") ||
			!strings.Contains(v.Message, want) {
			t.Errorf("verdict %v lacks %q", v, want)
		}
	}
	if verdicts["x"].Reason+verdicts["z"].Reason != "" {
		t.Errorf("%v", verdicts)
	}
	if len(effects["other"].Prices) != 0 || priceOf(effects["team"], "c5.large", "a", model.OnDemand) != 1_000_000 {
		t.Error("an overlay in conflict has an effect")
	}
	_, verdicts = evaluateOverlays(translate.NewNames(), overlaidPools(),
		[]*v1alpha1.NodeOverlay{overlayOf("a", 0, "", "", "1"), overlayOf("b", 0, "", "", "2")})
	if !strings.Contains(verdicts["a"].Message, "example.com/gpu") || verdicts["b"].Reason != "" {
		t.Errorf("%v", verdicts)
	}
}

func TestAMalformedOverlayHasNoEffectAndSaysWhy(t *testing.T) {
	restricted := overlayOf("o", 0, "", "", "")
	restricted.Spec.Capacity = corev1.ResourceList{"cpu": resource.MustParse("9")}
	for want, o := range map[string]*v1alpha1.NodeOverlay{
		"spec.priceAdjustment": overlayOf("o", 0, "", "10%", ""), "-100% at the least": overlayOf("o", 0, "", "-101%", ""),
		"such as +0.05": overlayOf("o", 0, "", "+NaN", ""), "spec.price": overlayOf("o", 0, "1e5", "", ""),
		"spec.price:": overlayOf("o", 0, "-1", "", ""), "remove one": overlayOf("o", 0, "1", "+1", ""),
		"cpu": restricted, "kubernetes.io/hostname": overlayOf("o", 0, "1", "", "", "kubernetes.io/hostname=n"),
		"use topology.kubernetes.io/zone": overlayOf("o", 0, "1", "", "", "topology.k8s.aws/zone-id=usw2-az1"),
	} {
		effects, verdicts := evaluateOverlays(translate.NewNames(), overlaidPools(), []*v1alpha1.NodeOverlay{o})
		if v := verdicts["o"]; v.Reason != "RuntimeValidation" || !strings.Contains(v.Message, want) || len(effects) != 0 {
			t.Errorf("%v lacks %q", v, want)
		}
	}
}
