package translate

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
)

var noon = time.Date(2026, 6, 3, 12, 0, 0, 0, time.UTC) // a Wednesday

func amounts(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func TestAmountsAreRoundedUpAndBounded(t *testing.T) {
	n := NewNames()
	r, err := n.Resources(amounts("cpu", "100500u", "memory", "1Gi", "example.com/chip", "3"))
	chip, _ := n.Index("example.com/chip")
	if err != nil || r[model.CPU] != 101 || r[model.Memory] != 1<<30 || r[chip] != 3 || chip != model.FirstFreeResource {
		t.Errorf("got %v, %v", r, err)
	}
	if back := n.ResourceList(r); back.Cpu().MilliValue() != 101 || len(back) != 3 {
		t.Errorf("back: %v", back)
	}
	for _, bad := range []corev1.ResourceList{amounts("memory", "9E"), amounts("cpu", "-1"), amounts("cpu", "9E")} {
		if r, err := n.Resources(bad); err == nil || r[model.CPU] < 0 || r[model.Memory] > math.MaxInt64/1000 {
			t.Errorf("%v: got %v, %v", bad, r, err)
		}
	}
}

func TestAFullTableOfNamesIsSaid(t *testing.T) {
	n := NewNames()
	for i := range model.MaxResources {
		n.Index("example.com/r" + string(rune('a'+i)))
	}
	if _, err := n.Resources(amounts("example.com/one-more", "1")); err == nil ||
		!strings.Contains(err.Error(), "example.com/one-more") {
		t.Errorf("got %v", err)
	}
}

func TestRequirementsComeBackAsTheyWent(t *testing.T) {
	two := 2
	spec := []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: "a", Operator: "In", Values: []string{"x", "y"}, MinValues: &two},
		{Key: "b", Operator: "NotIn", Values: []string{"x"}},
		{Key: "c", Operator: "Exists"},
		{Key: "d", Operator: "DoesNotExist"},
		{Key: "e", Operator: "Gt", Values: []string{"3"}},
		{Key: "e", Operator: "Lt", Values: []string{"9"}},
		{Key: "f", Operator: "NotIn", Values: []string{"5"}},
		{Key: "f", Operator: "Gte", Values: []string{"4"}},
		{Key: "g", Operator: "Lt", Values: []string{"0"}},
		{Key: "h", Operator: "NotIn", Values: []string{"x"}},
		{Key: "h", Operator: "Exists"},
		{Key: "i", Operator: "In", Values: []string{"x"}},
		{Key: "i", Operator: "NotIn", Values: []string{"x"}},
		{Key: "beta.kubernetes.io/arch", Operator: "In", Values: []string{"arm64"}},
	}
	rs, err := Requirements(spec)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Requirements(ToSpec(rs))
	if err != nil || again.String() != rs.String() {
		t.Errorf("went as %s, came back as %s (%v)", rs, again, err)
	}
	if h, _ := again.Get("h"); h.AllowsAbsence() || h.Has("x") || !h.Has("y") {
		t.Errorf("got %s", h)
	}
	if i, _ := again.Get("i"); !i.Impossible() {
		t.Errorf("got %s", i)
	}
	if a, _ := again.Get("a"); a.MinValues != 2 {
		t.Error("minValues was lost")
	}
	if _, ok := rs.Get(model.LabelArch); !ok {
		t.Error("the beta label was not normalised")
	}
	if _, err := Requirements([]karpv1.NodeSelectorRequirementWithMinValues{{
		Key:      "a",
		Operator: "Near",
	}}); err == nil || !strings.Contains(err.Error(), "requirements[0]") {
		t.Errorf("unknown operator: %v", err)
	}
}

func TestShapeOfAPod(t *testing.T) {
	n := NewNames()
	always := corev1.ContainerRestartPolicyAlways
	container := func(cpu string) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: amounts("cpu", cpu)}}
	}
	sidecar := container("100m")
	sidecar.RestartPolicy = &always
	pod := func() *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{sidecar, container("2")},
			Containers:     []corev1.Container{container("500m")},
			Overhead:       amounts("cpu", "250m"),
			NodeSelector:   map[string]string{"z": "1", "a": "2"},
			Tolerations:    []corev1.Toleration{{Key: "b", Operator: "Exists"}, {Key: "a", Value: "v"}},
		}}
	}
	s := n.Shape(pod(), nil)
	if s.Requests[model.CPU] != 2350 || s.Requests[model.Pods] != 1 || len(s.Unmodelled) != 0 || len(s.Required) != 2 {
		t.Errorf("got %+v", s)
	}
	other := pod()
	other.Spec.Tolerations[0], other.Spec.Tolerations[1] = other.Spec.Tolerations[1], other.Spec.Tolerations[0]
	if n.Shape(other, nil).Key != s.Key {
		t.Error("the order of tolerations makes a difference")
	}
	other.Spec.NodeSelector["a"] = "3"
	if n.Shape(other, nil).Key == s.Key {
		t.Error("the node selector makes no difference")
	}
}

func TestWhatIsNotModelledIsNamed(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu"}},
		Containers:     []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: amounts("memory", "9E")}}},
	}}
	got := strings.Join(NewNames().Shape(pod, nil).Unmodelled, "; ")
	if got != "resource memory: 9E is too large; resourceClaims" {
		t.Errorf("got %s", got)
	}
}

func TestWhatPodsAskOfEachOtherIsModelled(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Affinity: &corev1.Affinity{
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname}}},
			PodAffinity:     &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelTopologyZone}}},
		},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone,
			WhenUnsatisfiable: corev1.DoNotSchedule,
		}},
		Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{HostPort: 80}}}},
	}}
	s := NewNames().Shape(pod, nil)
	if len(s.Unmodelled) != 0 || len(s.Affinity) != 1 || len(s.AntiAffinity) != 1 || len(s.Spread) != 1 ||
		!s.Spread[0].Hard || len(s.HostPorts) != 1 {
		t.Errorf("got %+v", s)
	}
}

func TestOneAffinityTermIsAsGoodAsASelector(t *testing.T) {
	affinity := func(values ...string) *corev1.Pod {
		sel := &corev1.NodeSelector{}
		for _, v := range values {
			sel.NodeSelectorTerms = append(sel.NodeSelectorTerms, corev1.NodeSelectorTerm{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "k", Operator: "In", Values: []string{v}}},
			})
		}
		return &corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: sel}}}}
	}
	n := NewNames()
	if one := n.Shape(affinity("x"),
		nil); one.Key != n.Shape(&corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{"k": "x"}}}, nil).Key {
		t.Errorf("got %+v", one)
	}
	if two := n.Shape(affinity("y", "x"), nil); len(two.AnyOf) != 2 || two.Key != n.Shape(affinity("x", "y"), nil).Key {
		t.Errorf("got %+v", two)
	}
	if none := n.Shape(affinity(), nil); len(none.Unmodelled) != 0 || len(none.Required) != 1 ||
		!none.Required[0].Impossible() {
		t.Errorf("an affinity that matches nothing: %+v", none)
	}
}

func TestBudgets(t *testing.T) {
	daily, eight := "0 9 * * mon-fri", &metav1.Duration{Duration: 8 * time.Hour}
	bad := "every now and then"
	for name, c := range map[string]struct {
		budgets []karpv1.Budget
		total   int
		want    int
		wrong   string
	}{
		"the default is a tenth":     {nil, 25, 3, ""},
		"percentages are rounded up": {[]karpv1.Budget{{Nodes: "5%"}}, 10, 1, ""},
		"the least counts":           {[]karpv1.Budget{{Nodes: "5"}, {Nodes: "2"}}, 10, 2, ""},
		"another reason does not": {
			[]karpv1.Budget{{Nodes: "0", Reasons: []karpv1.DisruptionReason{"Drifted"}}},
			10,
			math.MaxInt32, "",
		},
		"in its hours it binds": {[]karpv1.Budget{{Nodes: "0", Schedule: &daily, Duration: eight}}, 10, 0, ""},
		"after its hours it does not": {[]karpv1.Budget{{
			Nodes: "0", Schedule: &daily,
			Duration: &metav1.Duration{Duration: time.Hour},
		}}, 10, math.MaxInt32, ""},
		"a bad cron allows nothing": {
			[]karpv1.Budget{{Nodes: "5", Schedule: &bad, Duration: eight}},
			10, 0,
			"budgets[0].schedule",
		},
		"so does a bad number": {[]karpv1.Budget{{Nodes: "some"}}, 10, 0, "budgets[0].nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := allowed(c.budgets, karpv1.DisruptionReasonEmpty, noon, c.total)
			if got != c.want || (err == nil) != (c.wrong == "") || (err != nil && !strings.Contains(err.Error(), c.wrong)) {
				t.Errorf("got %d, %v", got, err)
			}
		})
	}
}

// An article about EKS Auto Mode forbids disruption from nine to five, Monday to Friday.
func TestABudgetHoldsInWorkingHours(t *testing.T) {
	schedule := "0 9 * * mon-fri"
	pool := poolWith(karpv1.Budget{Nodes: "100%"},
		karpv1.Budget{Nodes: "0", Schedule: &schedule, Duration: &metav1.Duration{Duration: 8 * time.Hour}})
	for at, want := range map[string]struct {
		allowed int
		next    string
	}{
		"Mon 02 Mar 08:59": {4, "Mon 02 Mar 09:00"}, "Mon 02 Mar 09:00": {0, "Mon 02 Mar 17:00"},
		"Fri 06 Mar 16:59": {0, "Fri 06 Mar 17:00"}, "Fri 06 Mar 17:00": {4, "Mon 09 Mar 09:00"},
		"Sat 07 Mar 12:00": {4, "Mon 09 Mar 09:00"}, "Sun 08 Mar 09:00": {4, "Mon 09 Mar 09:00"},
	} {
		now, err := time.Parse("2006 Mon 02 Jan 15:04", "2026 "+at)
		if err != nil {
			t.Fatal(err)
		}
		if got := AllowedDisruptions(pool, karpv1.DisruptionReasonEmpty, now, 4); got != want.allowed {
			t.Errorf("%s: %d of 4 nodes may be disrupted, want %d", at, got, want.allowed)
		}
		if got := NextWindow(pool, now).Format("Mon 02 Jan 15:04"); got != want.next {
			t.Errorf("%s: the next change is at %s, want %s", at, got, want.next)
		}
	}
}

func TestHowLongDoNotDisruptHolds(t *testing.T) {
	created, started := metav1.NewTime(noon.Add(-time.Hour)), metav1.NewTime(noon)
	for value, want := range map[string]time.Time{
		"true": Forever, "30m": noon.Add(30 * time.Minute), "false": {}, "-5m": {}, "0s": {}, "soon": {},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			CreationTimestamp: created, Annotations: map[string]string{karpv1.DoNotDisruptAnnotationKey: value},
		}}
		pod.Status.StartTime = &started
		if got := ReadPod(pod).HeldUntil; !got.Equal(want) {
			t.Errorf("%q: until %s, want %s", value, got, want)
		}
	}
	waiting := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{karpv1.DoNotDisruptAnnotationKey: "30m"}}}
	if got := ReadPod(waiting).HeldUntil; !got.Equal(Forever) {
		t.Errorf("a pod that has not begun: until %s", got)
	}
}

func nodePool(name string) *karpv1.NodePool {
	np := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "pool-uid"}}
	np.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{
		Group: "karpenter.k8s.aws", Kind: "EC2NodeClass",
		Name: "default",
	}
	np.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("30s")
	return np
}

func TestAPoolThatCannotBeReadIsNotReady(t *testing.T) {
	for field, spoil := range map[string]func(*karpv1.NodePool){
		"spec.limits.cpu": func(np *karpv1.NodePool) { np.Spec.Limits = karpv1.Limits(amounts("cpu", "-1")) },
		"spec.template.spec.requirements[0]": func(np *karpv1.NodePool) {
			np.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: "k", Operator: "Near"}}
		},
		"spec.disruption.budgets[0].nodes": func(np *karpv1.NodePool) { np.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "-3"}} },
	} {
		np := nodePool("p")
		spoil(np)
		p, err := NewNames().Pool(np, PoolState{Now: noon, Budgeted: 10})
		if err == nil || !strings.Contains(err.Error(), field) || p.NotReady == "" || p.Disruption.AllowedEmpty != 0 &&
			strings.Contains(field, "budgets") {
			t.Errorf("%s: got NotReady %q, %v", field, p.NotReady, err)
		}
	}
	np := nodePool("p")
	np.Spec.Limits = karpv1.Limits(amounts("cpu", "10500m", "nodes", "7"))
	p, err := NewNames().Pool(np, PoolState{Now: noon, Budgeted: 10, Going: 1})
	if err != nil || p.NotReady != "" || p.Limits.Max[model.CPU] != 10500 || p.Limits.Nodes != 7 ||
		p.Disruption.AllowedEmpty != 0 {
		t.Errorf("got %+v, %v", p, err)
	}
	for _, key := range []string{model.LabelPool, "karpenter.k8s.aws/ec2nodeclass"} {
		if _, ok := p.Requirements.Get(key); !ok {
			t.Errorf("the pool's requirements lack %s", key)
		}
	}
}

// launchOf returns a launch of a t.large with a custom label that the pods chose and another that must merely exist.
func launchOf() (model.Launch, *model.InstanceType) {
	exists, _ := model.NewRequirement("example.com/any", model.Exists)
	l := model.Launch{
		ID: "0123456789abcdef", Pool: "p", Types: []string{"t.large", "t.xlarge"},
		Requirements: model.NewRequirements(
			model.OneOf(model.LabelPool, "p"), model.OneOf(model.LabelInstanceType, "t.large", "t.xlarge"),
			model.OneOf(model.LabelZone, "z1"), model.OneOf("example.com/team", "blue"), exists,
			model.OneOf(model.LabelHostname, "x")),
		Requests: model.Resources{model.CPU: 1500, model.Pods: 2},
		Chosen: model.Candidate{
			OfferingKey: model.OfferingKey{Type: "t.large", Zone: "z1", CapacityType: "spot"},
			Price:       5,
		},
	}
	return l, &model.InstanceType{
		Name:         "t.large",
		Requirements: model.NewRequirements(model.OneOf(model.LabelInstanceType, "t.large")),
	}
}

func TestAClaimIsKnownFromItsCreation(t *testing.T) {
	n := NewNames()
	l, chosen := launchOf()
	np := nodePool("p")
	np.Spec.Template.Labels = map[string]string{"tier": "web"}
	expect := Expected{
		Candidate: l.Chosen, Capacity: model.Resources{model.CPU: 4000},
		Allocatable: model.Resources{model.CPU: 1900},
	}
	claim := n.NewClaim("p-0123456789", np, l, chosen, expect)
	for k, want := range map[string]string{
		"karpenter.sh/nodepool": "p", "karpenter.k8s.aws/ec2nodeclass": "default", "tier": "web",
		"example.com/team": "blue", "example.com/any": "true", model.LabelZone: "", model.LabelInstanceType: "",
	} {
		if got := claim.Labels[k]; got != want {
			t.Errorf("label %s is %q, want %q", k, got, want)
		}
	}
	if claim.Annotations["karpenter.sh/nodepool-hash"] != np.Hash() || claim.Finalizers[0] != "karpenter.sh/termination" ||
		claim.OwnerReferences[0].UID != "pool-uid" || !*claim.OwnerReferences[0].BlockOwnerDeletion {
		t.Errorf("contract: %+v", claim.ObjectMeta)
	}
	for _, r := range claim.Spec.Requirements {
		if r.Key == model.LabelHostname {
			t.Error("the API refuses a requirement on the host name")
		}
	}
	m := n.Node(nil, claim)
	if m.State != model.InFlight || m.Capacity[model.CPU] != 4000 || m.Allocatable[model.CPU] != 1900 ||
		m.Price != 5 || m.Pool != "p" || m.Type != "" {
		t.Errorf("in flight: %+v", m)
	}
	claim.Annotations = nil
	if m := n.Node(nil, claim); m.Allocatable[model.CPU] != 1500 {
		t.Errorf("somebody else's claim holds at least its requests: %+v", m.Allocatable)
	}
	claim.Status.Allocatable = amounts("cpu", "1800m")
	if m := n.Node(nil, claim); m.Allocatable[model.CPU] != 1800 {
		t.Errorf("launched: %+v", m.Allocatable)
	}
}

func TestAClaimSaysThatMinValuesWereRelaxed(t *testing.T) {
	n := NewNames()
	l, chosen := launchOf()
	for want, relaxed := range map[string][]model.Relaxed{
		"false": nil,
		"true":  {{Key: model.LabelInstanceType, From: 3, To: 2}},
	} {
		l.Relaxed = relaxed
		if got := n.NewClaim("c", nodePool("p"), l, chosen,
			Expected{}).Annotations["karpenter.sh/nodeclaim-min-values-relaxed"]; got != want {
			t.Errorf("relaxed %v: the claim says %q, want %q", relaxed, got, want)
		}
	}
}

func TestAMachineHasDriftedSinceItsConditionTurned(t *testing.T) {
	n := NewNames()
	l, chosen := launchOf()
	claim := n.NewClaim("c", nodePool("p"), l, chosen, Expected{})
	claim.Status.Conditions = []status.Condition{{
		Type: "Drifted", Status: "True", Reason: "AMIDrifted",
		LastTransitionTime: metav1.NewTime(noon),
	}}
	if m := n.Node(nil, claim); m.Drifted != "AMIDrifted" || !m.DriftedSince.Equal(noon) {
		t.Errorf("drifted %q since %s", m.Drifted, m.DriftedSince)
	}
}

func TestTaintsOfStartingDoNotCountUntilInitialized(t *testing.T) {
	n := NewNames()
	l, chosen := launchOf()
	np := nodePool("p")
	np.Spec.Template.Spec.StartupTaints = []corev1.Taint{{Key: "cni", Effect: "NoSchedule"}}
	claim := n.NewClaim("c", np, l, chosen, Expected{})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{
		{Key: "dedicated", Effect: "NoSchedule"},
		{Key: "cni", Effect: "NoSchedule"},
		{Key: "karpenter.sh/unregistered", Effect: "NoExecute"},
		{Key: "node.kubernetes.io/not-ready", Effect: "NoSchedule"},
		{Key: "readiness.k8s.io/gpu", Effect: "NoSchedule"},
	}}}
	if m := n.Node(node, claim); m.State != model.Registered || len(m.Taints) != 1 || m.Taints[0].Key != "dedicated" {
		t.Errorf("starting: %+v", m.Taints)
	}
	// The claim's watch may be ahead of the Node's: the Node's taints are still the startup taints of an older version.
	claim.Status.Conditions = []status.Condition{{
		Type: "Initialized", Status: "True",
		LastTransitionTime: metav1.NewTime(noon),
	}}
	if m := n.Node(node, claim); m.State != model.Registered || len(m.Taints) != 1 {
		t.Errorf("the claim is ahead: %v %+v", m.State, m.Taints)
	}
	node.Labels = map[string]string{"karpenter.sh/initialized": "true"}
	if m := n.Node(node, claim); m.State != model.Initialized || !m.Initialized.Equal(noon) || len(m.Taints) != 5 {
		t.Errorf("initialized: %+v", m.Taints)
	}
	if m := n.Node(node, nil); len(m.Taints) != 5 {
		t.Errorf("somebody else's: %+v", m.Taints)
	}
}

func TestWhichPodsWait(t *testing.T) {
	waits := func(change func(*corev1.Pod)) bool {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{SchedulerName: "default-scheduler"}}
		change(p)
		return ReadPod(p).Waiting
	}
	controller := true
	for name, change := range map[string]func(*corev1.Pod){
		"bound":           func(p *corev1.Pod) { p.Spec.NodeName = "n" },
		"gated":           func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} },
		"ended":           func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"going":           func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} },
		"other scheduler": func(p *corev1.Pod) { p.Spec.SchedulerName = "volcano" },
		"daemon's": func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: &controller}}
		},
	} {
		if waits(change) {
			t.Errorf("a pod that is %s waits", name)
		}
	}
	if !waits(func(*corev1.Pod) {}) {
		t.Error("a new pod does not wait")
	}
}

func TestMovingAPodCostsByItsOwnWordAndPriority(t *testing.T) {
	priority := func(p int32) *int32 { return &p }
	for _, c := range []struct {
		cost     string
		priority *int32
		want     int32
	}{
		{"", nil, 1000},
		{"100", nil, 2000},
		{"1000", nil, 11_000},
		{"-100", nil, 0},
		{"-2147483648", nil, -1_000_000},
		{"2147483647", nil, 1_000_000},
		{"much", nil, 1000},
		{"", priority(1 << 25), 2000},
		{"", priority(2_000_000_000), 10000},
	} {
		pod := &corev1.Pod{}
		pod.Spec.Priority = c.priority
		if c.cost != "" {
			pod.Annotations = map[string]string{corev1.PodDeletionCost: c.cost}
		}
		if got := ReadPod(pod).EvictionCost; got != c.want {
			t.Errorf("deletion cost %q: %d, want %d", c.cost, got, c.want)
		}
	}
}

// A window that never opens, on 30 February, does not hide other windows.
func TestTheNextWindowIsTheFirstThatOpensAtAll(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	window := func(schedule string) karpv1.Budget {
		return karpv1.Budget{Nodes: "0", Schedule: &schedule, Duration: &metav1.Duration{Duration: time.Hour}}
	}
	never, evening := window("0 0 30 2 *"), window("0 18 * * *")
	for _, budgets := range [][]karpv1.Budget{{evening, never}, {never, evening}} {
		if at := NextWindow(poolWith(budgets...), now); !at.Equal(now.Add(6 * time.Hour)) {
			t.Errorf("got %s", at)
		}
	}
	if at := NextWindow(poolWith(never), now); !at.IsZero() {
		t.Errorf("no window: %s", at)
	}
}
