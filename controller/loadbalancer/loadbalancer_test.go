package loadbalancer

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/region"
	"github.com/nodeless/nodeless/region/awsapi"
)

// game is the 2048 game of AWS's guides: a Service, its pods' addresses and an Ingress.
const game = `
kind: Service
metadata: {name: service-2048, namespace: study-aews}
spec:
  ports: [{port: 80, targetPort: 80, protocol: TCP}]
---
kind: EndpointSlice
metadata: {name: s, namespace: study-aews, labels: {kubernetes.io/service-name: service-2048}}
addressType: IPv4
ports: [{name: "", port: 80}]
endpoints:
- {addresses: [10.201.0.3], conditions: {ready: true}}
- {addresses: [10.201.0.2], conditions: {ready: true}}
- {addresses: [10.201.0.4], conditions: {ready: false, serving: true, terminating: true}}
- {addresses: [10.201.0.5], conditions: {ready: false}, targetRef: {kind: Pod, namespace: study-aews, name: gated}}
- {addresses: [10.201.0.6], conditions: {ready: false}, targetRef: {kind: Pod, namespace: study-aews, name: starting}}
---
kind: Ingress
metadata:
  name: ingress-2048
  namespace: study-aews
  annotations:
    alb.ingress.kubernetes.io/scheme: internet-facing
    alb.ingress.kubernetes.io/target-type: ip
spec:
  ingressClassName: alb
  rules:
  - http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: service-2048, port: {number: 80}}}}
---
kind: Pod
metadata: {name: gated, namespace: study-aews}
spec: {readinessGates: [{conditionType: target-health.elbv2.k8s.aws/game}]}
status: {conditions: [{type: ContainersReady, status: "True"}]}
---
kind: Pod
metadata: {name: starting, namespace: study-aews}
spec: {readinessGates: [{conditionType: target-health.elbv2.k8s.aws/game}]}
`

// read returns the objects in a YAML text.
func read(t *testing.T, text string) *objects {
	t.Helper()
	o := &objects{
		cluster: "prod", classes: map[string]*networkingv1.IngressClass{}, services: map[string]*corev1.Service{},
		slices: map[string][]*discoveryv1.EndpointSlice{},
	}
	pods := map[string]*corev1.Pod{}
	o.pod = func(namespace, name string) (*corev1.Pod, error) { return pods[namespace+"/"+name], nil }
	for part := range strings.SplitSeq(text, "\n---\n") {
		decode := func(into any) {
			t.Helper()
			if err := yaml.Unmarshal([]byte(part), into); err != nil {
				t.Fatal(err)
			}
		}
		switch {
		case strings.Contains(part, "kind: Service\n"):
			s := &corev1.Service{}
			decode(s)
			o.services[s.Namespace+"/"+s.Name] = s
		case strings.Contains(part, "kind: EndpointSlice\n"):
			s := &discoveryv1.EndpointSlice{}
			decode(s)
			key := s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]
			o.slices[key] = append(o.slices[key], s)
		case strings.Contains(part, "kind: IngressClass\n"):
			c := &networkingv1.IngressClass{}
			decode(c)
			o.classes[c.Name] = c
		case strings.Contains(part, "kind: Ingress\n"):
			i := &networkingv1.Ingress{}
			decode(i)
			o.ingresses = append(o.ingresses, i)
		case strings.Contains(part, "kind: Node\n"):
			n := &corev1.Node{}
			decode(n)
			o.nodes = append(o.nodes, n)
		case strings.Contains(part, "kind: Pod\n"):
			p := &corev1.Pod{}
			decode(p)
			pods[p.Namespace+"/"+p.Name] = p
		}
	}
	return o
}

// describe formats stacks, one item per line.
func describe(stacks []*stack) string {
	var b strings.Builder
	for _, s := range stacks {
		_, _ = fmt.Fprintf(&b, "%s %s %s\n", s.kind, s.scheme, s.id)
		does := func(a action) string {
			switch g := s.targetGroups[a.targetGroup]; {
			case a.fixed != nil:
				return a.fixed.StatusCode
			case a.redirect != nil:
				return a.redirect.StatusCode + " " + a.redirect.Path
			default:
				return fmt.Sprintf("%s %s %v", g.protocol, g.targetType, g.targets)
			}
		}
		for _, port := range slices.Sorted(maps.Keys(s.listeners)) {
			l := s.listeners[port]
			for _, r := range l.rules {
				_, _ = fmt.Fprintf(&b, "  %d %v -> %s\n", port, r.conditions, does(r.action))
			}
			_, _ = fmt.Fprintf(&b, "  %d else -> %s\n", port, does(l.fallback))
		}
		for _, p := range s.problems {
			_, _ = fmt.Fprintf(&b, "  %s: %s\n", p.reason, p.message)
		}
	}
	return b.String()
}

func wantStacks(t *testing.T, o *objects, want string) {
	t.Helper()
	if got := describe(append(o.ingressStacks(), o.serviceStacks()...)); got != strings.TrimPrefix(want, "\n") {
		t.Errorf("stacks:\n%s\nwant:\n%s", got, want)
	}
}

// Targets are the ready pods and the pods that only this target group's readiness gate keeps from being ready;
// terminating pods are not.
func TestTheGameGetsALoadBalancerForItsReadyPods(t *testing.T) {
	group := slices.Collect(maps.Keys(read(t, game).ingressStacks()[0].targetGroups))[0]
	o := read(t, strings.ReplaceAll(game, "target-health.elbv2.k8s.aws/game", "target-health.elbv2.k8s.aws/"+group))
	wantStacks(t, o, `
application internet-facing study-aews/ingress-2048
  80 [{path-pattern [/*]}] -> HTTP ip [{10.201.0.2 80} {10.201.0.3 80} {10.201.0.5 80}]
  80 else -> 404
`)
	s := o.ingressStacks()[0]
	if !strings.HasPrefix(s.name, "k8s-studyaew-ingress2-") || len(s.name) > 32 {
		t.Errorf("it is called %s", s.name)
	}
	if g := s.targetGroups[group].gated; len(g) != 1 || g[target{"10.201.0.5", 80}].Name != "gated" {
		t.Errorf("pods with gates: %+v", g)
	}
}

func TestAnnotationsSayWhatTheLoadBalancerDoes(t *testing.T) {
	text := strings.Replace(game, "    alb.ingress.kubernetes.io/target-type: ip\n", `    alb.ingress.kubernetes.io/target-type: instance
    alb.ingress.kubernetes.io/listen-ports: '[{"HTTP": 80}, {"HTTPS": 443}, {"HTTP": 8080}]'
    alb.ingress.kubernetes.io/group.name: games
    alb.ingress.kubernetes.io/wafv2-acl-arn: arn
    alb.ingress.kubernetes.io/healthcheck-interval-seconds: often
    alb.ingress.kubernetes.io/actions.home: '{"type":"redirect","redirectConfig":{"path":"/play","statusCode":"HTTP_301"}}'
`, 1)
	text = strings.Replace(text, "      paths:\n", `      paths:
      - {path: /a, pathType: Prefix, backend: {service: {name: nobody, port: {number: 80}}}}
      - {path: /home, pathType: Exact, backend: {service: {name: home, port: {name: use-annotation}}}}
`, 1)
	wantStacks(t, read(t, text), `
application internet-facing games
  80 [{path-pattern [/home]}] -> HTTP_301 /play
  80 [{path-pattern [/a /a/*]}] -> 503
  80 else -> 404
  8080 [{path-pattern [/home]}] -> HTTP_301 /play
  8080 [{path-pattern [/a /a/*]}] -> 503
  8080 else -> 404
  BackendNotFound: Service "nobody" of a backend does not exist
  InvalidAnnotation: alb.ingress.kubernetes.io/healthcheck-interval-seconds: "often" is not a number; 15 is used
  InvalidBackend: target type instance needs a node port, and Service "service-2048" has the type ; use target type ip, or the type NodePort
  UnsupportedListener: alb.ingress.kubernetes.io/listen-ports: protocol HTTPS is not supported, only HTTP; port 443 gets no listener
  UnsupportedAnnotation: these annotations have no effect here: alb.ingress.kubernetes.io/wafv2-acl-arn
`)
}

// The default backend of a group is the first that one of its Ingresses has; an Ingress without one has no say.
func TestAGroupKeepsTheDefaultBackendOfItsIngresses(t *testing.T) {
	for _, order := range []string{"1", "3"} {
		wantStacks(t, read(t, `
kind: Ingress
metadata:
  name: closed
  namespace: shop
  annotations:
    alb.ingress.kubernetes.io/group.name: shop
    alb.ingress.kubernetes.io/group.order: "`+order+`"
    alb.ingress.kubernetes.io/actions.closed: '{"type":"fixed-response","fixedResponseConfig":{"statusCode":"503"}}'
spec:
  ingressClassName: alb
  defaultBackend: {service: {name: closed, port: {name: use-annotation}}}
---
kind: Ingress
metadata:
  name: none
  namespace: shop
  annotations: {alb.ingress.kubernetes.io/group.name: shop, alb.ingress.kubernetes.io/group.order: "2"}
spec:
  ingressClassName: alb
---
kind: Ingress
metadata:
  name: later
  namespace: shop
  annotations:
    alb.ingress.kubernetes.io/group.name: shop
    alb.ingress.kubernetes.io/group.order: "4"
    alb.ingress.kubernetes.io/actions.later: '{"type":"fixed-response","fixedResponseConfig":{"statusCode":"418"}}'
spec:
  ingressClassName: alb
  defaultBackend: {service: {name: later, port: {name: use-annotation}}}
`), `
application internal shop
  80 else -> 503
`)
	}
}

// The ID of an Ingress without a group is no name of a group: nobody joins it.
func TestAGroupsNameIsNoOtherIngress(t *testing.T) {
	intruder := game[strings.Index(game, "kind: Ingress\n"):strings.Index(game, "---\nkind: Pod\n")]
	intruder = strings.Replace(intruder, "  namespace: study-aews\n  annotations:\n",
		"  namespace: another\n  annotations:\n    alb.ingress.kubernetes.io/group.name: study-aews/ingress-2048\n", 1)
	intruder = strings.Replace(intruder, "    alb.ingress.kubernetes.io/target-type: ip\n", "", 1)
	wantStacks(t, read(t, game+"---\n"+intruder), `
application internet-facing another/ingress-2048
  80 [{path-pattern [/*]}] -> 503
  80 else -> 404
  BackendNotFound: Service "service-2048" of a backend does not exist
  InvalidAnnotation: alb.ingress.kubernetes.io/group.name: "study-aews/ingress-2048" is not a name of at most 63 lower-case letters, digits, - and .; the Ingress is in no group
application internet-facing study-aews/ingress-2048
  80 [{path-pattern [/*]}] -> HTTP ip [{10.201.0.2 80} {10.201.0.3 80}]
  80 else -> 404
`)
}

func TestTheClassDecidesWhoseIngressItIs(t *testing.T) {
	for controller, want := range map[string]int{
		"ingress.k8s.aws/alb": 1, "eks.amazonaws.com/alb": 1, "k8s.io/ingress-nginx": 0,
	} {
		o := read(t, game+"---\nkind: IngressClass\nmetadata: {name: alb}\nspec: {controller: "+controller+"}\n")
		if got := len(o.ingressStacks()); got != want {
			t.Errorf("class of %s: %d load balancers, want %d", controller, got, want)
		}
	}
}

// An IngressClassParams takes precedence over the annotations of the Ingresses of its class.
func TestTheClassesParametersGoFirst(t *testing.T) {
	o := read(t, game+`---
kind: IngressClass
metadata: {name: alb}
spec:
  controller: eks.amazonaws.com/alb
  parameters: {apiGroup: eks.amazonaws.com, kind: IngressClassParams, name: alb}
`)
	o.params = map[string]*unstructured.Unstructured{"eks.amazonaws.com/alb": {Object: map[string]any{
		"metadata": map[string]any{"name": "alb"},
		"spec": map[string]any{
			"scheme": "internal", "group": map[string]any{"name": "games"}, "certificateARNs": []any{"arn"},
			"subnets": map[string]any{"matchTags": []any{}},
		},
	}}}
	wantStacks(t, o, `
application internal games
  80 [{path-pattern [/*]}] -> HTTP ip [{10.201.0.2 80} {10.201.0.3 80}]
  80 else -> 404
  UnsupportedField: these fields of IngressClassParams alb have no effect here: certificateARNs, subnets.matchTags
`)
}

// The API server's own validation accepts the definitions.
func TestTheDefinitionsAreValid(t *testing.T) {
	var names []string
	for _, d := range CRDs() {
		names = append(names, d.Name)
		apiextensionsv1.SetDefaults_CustomResourceDefinition(d)
		apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&d.Spec)
		d.Status.StoredVersions = []string{d.Spec.Versions[0].Name}
		internal := &apiextensions.CustomResourceDefinition{}
		err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(d, internal, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range validation.ValidateCustomResourceDefinition(t.Context(), internal) {
			t.Errorf("%s: %v", d.Name, e)
		}
	}
	if got := strings.Join(names, " "); got != "targetgroupbindings.elbv2.k8s.aws ingressclassparams.elbv2.k8s.aws "+
		"ingressclassparams.eks.amazonaws.com" {
		t.Errorf("definitions %s", got)
	}
}

func TestAServiceGetsANetworkLoadBalancer(t *testing.T) {
	service := strings.Replace(game, "spec:\n  ports: [{port", "spec:\n  type: LoadBalancer\n  ports: [{nodePort: 30080, port", 1)
	service = service[:strings.Index(service, "kind: Ingress\n")]
	wantStacks(t, read(t, service), `
network internal study-aews/service-2048
  80 else -> TCP ip [{10.201.0.2 80} {10.201.0.3 80}]
`)
	instances := strings.Replace(service, "namespace: study-aews}", `namespace: study-aews, annotations: {
  service.beta.kubernetes.io/aws-load-balancer-scheme: internet-facing, service.beta.kubernetes.io/aws-load-balancer-nlb-target-type: instance,
  service.beta.kubernetes.io/aws-load-balancer-ssl-cert: arn}}`, 1)
	for n, more := range []string{"", "taints: [{key: karpenter.sh/disrupted, effect: NoSchedule}]"} {
		instances += fmt.Sprintf("kind: Node\nmetadata: {name: n%d}\nspec:\n  providerID: aws:///us-west-2a/i-%d\n  %s\n"+
			"status: {conditions: [{type: Ready, status: \"True\"}]}\n---\n", n, n, more)
	}
	wantStacks(t, read(t, instances), `
network internet-facing study-aews/service-2048
  80 else -> TCP instance [{i-0 30080}]
  UnsupportedAnnotation: these annotations have no effect here: service.beta.kubernetes.io/aws-load-balancer-ssl-cert
`)
}

// The AWS Load Balancer Controller documents http and tcp for Services.
func TestTheProtocolOfAHealthCheckMayBeInLowerCase(t *testing.T) {
	service := game[:strings.Index(game, "kind: Ingress\n")]
	service = strings.Replace(service, "spec:\n  ports", "spec:\n  type: LoadBalancer\n  ports", 1)
	service = strings.Replace(service, "namespace: study-aews}", `namespace: study-aews, annotations: {
  service.beta.kubernetes.io/aws-load-balancer-healthcheck-protocol: http,
  service.beta.kubernetes.io/aws-load-balancer-healthcheck-path: /up}}`, 1)
	o := read(t, service)
	wantStacks(t, o, `
network internal study-aews/service-2048
  80 else -> TCP ip [{10.201.0.2 80} {10.201.0.3 80}]
`)
	for _, g := range o.serviceStacks()[0].targetGroups {
		if g.health.protocol != "HTTP" || g.health.path != "/up" || g.health.codes != "200-399" {
			t.Errorf("health check %+v", g.health)
		}
	}
}

// atAWS returns a syncer and the region that it calls over HTTP.
func atAWS(t *testing.T) (*syncer, *region.Region) {
	t.Helper()
	r, err := region.Open(region.Config{
		Name: "us-west-2", Seed: 1, Clock: clock.NewVirtual(time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)),
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(awsapi.New(r, awsapi.Options{}))
	t.Cleanup(func() { server.Close(); _ = r.Close() })
	config := aws.Config{
		Region: "us-west-2", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
	}
	return &syncer{elb: elb.NewFromConfig(config), ec2: ec2.NewFromConfig(config), cluster: "prod"}, r
}

// look runs one reconciliation and returns the mutating calls that it made.
func (s *syncer) look(t *testing.T, r *region.Region, stacks []*stack) (changes []string) {
	t.Helper()
	before := r.Counters()
	have, err := s.list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range stacks {
		if _, err := s.sync(t.Context(), have, k); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.prune(t.Context(), have, stacks); err != nil {
		t.Fatal(err)
	}
	for call, n := range r.Counters() {
		if !strings.HasPrefix(call, "Describe") && n > before[call] {
			changes = append(changes, call)
		}
	}
	slices.Sort(changes)
	return changes
}

func TestAWSGetsWhatIsMissingLosesWhatIsTooMuchAndIsLeftAloneElse(t *testing.T) {
	s, r := atAWS(t)
	stacks := func(text string) []*stack { return read(t, text).ingressStacks() }
	want := func(when string, changes []string, calls ...string) {
		t.Helper()
		if !slices.Equal(changes, calls) {
			t.Errorf("%s: %v, want %v", when, changes, calls)
		}
	}
	want("at first", s.look(t, r, stacks(game)),
		"AuthorizeSecurityGroupIngress", "CreateListener", "CreateLoadBalancer", "CreateRule", "CreateSecurityGroup",
		"CreateTargetGroup", "RegisterTargets")
	want("again", s.look(t, r, stacks(game)))
	want("a pod ends", s.look(t, r, stacks(strings.Replace(game,
		"[10.201.0.2], conditions: {ready: true", "[10.201.0.2], conditions: {ready: false, terminating: true", 1))),
		"DeregisterTargets")
	want("another path", s.look(t, r, stacks(strings.Replace(game, "path: /,", "path: /play,", 1))),
		"ModifyRule", "RegisterTargets")
	attributes := strings.Replace(game, "target-type: ip\n", "target-type: ip\n"+
		"    alb.ingress.kubernetes.io/load-balancer-attributes: idle_timeout.timeout_seconds=30\n"+
		"    alb.ingress.kubernetes.io/target-group-attributes: deregistration_delay.timeout_seconds=30\n", 1)
	want("with attributes", s.look(t, r, stacks(attributes)),
		"ModifyLoadBalancerAttributes", "ModifyRule", "ModifyTargetGroupAttributes")
	want("with attributes, again", s.look(t, r, stacks(attributes)))
	if _, err := r.CreateLoadBalancer(region.LoadBalancer{
		Name: "somebodys", Type: region.Network, Subnets: []string{r.Subnets()[0].ID},
	}); err != nil {
		t.Fatal(err)
	}
	want("without the Ingress", s.look(t, r, nil), "DeleteLoadBalancer", "DeleteSecurityGroup", "DeleteTargetGroup")
	if left := r.LoadBalancers(); len(left) != 1 || left[0].Name != "somebodys" || len(r.TargetGroups()) != 0 {
		t.Errorf("left %+v and %d target groups", left, len(r.TargetGroups()))
	}
}

// Whoever asks for the name of another namespace's load balancer does not get it, until the other is gone.
func TestANameBelongsToOneStack(t *testing.T) {
	s, r := atAWS(t)
	named := strings.Replace(game, "target-type: ip\n", "target-type: ip\n"+
		"    alb.ingress.kubernetes.io/load-balancer-name: shop\n", 1)
	first := read(t, named).ingressStacks()[0]
	second := read(t, strings.ReplaceAll(named, "study-aews", "another")).ingressStacks()[0]
	second.tags[tagIngress], second.tags[tagService] = first.id, first.id // tags of the user's, which do not count
	for _, story := range []struct {
		when   string
		stacks []*stack
		owner  string
		failed bool
	}{
		{"both are new", []*stack{first, second}, first.id, true},
		{"both are known", []*stack{second, first}, first.id, true},
		{"the first is gone, and its load balancer goes", []*stack{second}, "", true},
		{"nobody has the name", []*stack{second}, second.id, false},
		{"the first is back", []*stack{first, second}, second.id, true},
	} {
		have, err := s.list(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var failed error
		for _, k := range story.stacks {
			_, err := s.sync(t.Context(), have, k)
			failed = errors.Join(failed, err)
		}
		if err := s.prune(t.Context(), have, story.stacks); err != nil {
			t.Fatal(err)
		}
		if refused := failed != nil && strings.Contains(failed.Error(), "choose another"); refused != story.failed {
			t.Errorf("%s: %v", story.when, failed)
		}
		owner := ""
		for _, b := range r.LoadBalancers() {
			owner += b.Tags[tagIngress] + b.Tags[tagService]
		}
		if owner != story.owner {
			t.Errorf("%s: the load balancer is that of %q, want %q", story.when, owner, story.owner)
		}
	}
}

// The load balancer of an Ingress has a security group of its own, which opens the ports of its listeners. A rule
// that lets it reach the nodes keeps the group until the rule is deleted.
func TestALoadBalancerHasASecurityGroup(t *testing.T) {
	s, r := atAWS(t)
	ports := func(listen string) []*stack {
		return read(t, strings.Replace(game, "target-type: ip\n", "target-type: ip\n"+
			"    alb.ingress.kubernetes.io/listen-ports: '"+listen+"'\n", 1)).ingressStacks()
	}
	look := func(stacks []*stack) (own []region.SecurityGroup) {
		t.Helper()
		s.look(t, r, stacks)
		for _, g := range r.SecurityGroups() {
			if g.Tags["elbv2.k8s.aws/cluster"] == "prod" {
				own = append(own, g)
			}
		}
		return own
	}
	for _, listen := range []string{`[{"HTTP": 80}, {"HTTP": 81}]`, `[{"HTTP": 81}, {"HTTP": 8080}]`} {
		own := look(ports(listen))
		if len(own) != 1 || !slices.Equal(r.LoadBalancers()[0].SecurityGroups, []string{own[0].ID}) ||
			own[0].Name != r.LoadBalancers()[0].Name || own[0].Tags["ingress.k8s.aws/stack"] != "study-aews/ingress-2048" {
			t.Fatalf("groups %+v of load balancer %+v", own, r.LoadBalancers())
		}
		var open string
		for _, rule := range own[0].Ingress {
			open += fmt.Sprintf("{\"HTTP\": %d}, ", rule.From)
			if rule.Peer != "0.0.0.0/0" || rule.Protocol != "tcp" || rule.To != rule.From {
				t.Errorf("rule %+v", rule)
			}
		}
		if "["+strings.TrimSuffix(open, ", ")+"]" != listen {
			t.Errorf("open are %s of %s", open, listen)
		}
	}
	nodes, own := r.SecurityGroups()[0].ID, look(ports(`[{"HTTP": 80}]`))[0].ID
	rule := []region.SecurityGroupRule{{Protocol: "tcp", From: 80, To: 80, Peer: own}}
	if _, err := r.AuthorizeSecurityGroupIngress(nodes, rule); err != nil {
		t.Fatal(err)
	}
	if left := look(nil); len(left) != 1 {
		t.Errorf("the group that a rule names is gone: %+v", left)
	}
	if err := r.RevokeSecurityGroupIngress(nodes, rule); err != nil {
		t.Fatal(err)
	}
	if left := look(nil); len(left) > 0 {
		t.Errorf("left %+v", left)
	}
}

// controllerOf returns a controller of a cluster with these objects, which it calls through fake clients.
func controllerOf(t *testing.T, s *syncer, kube kubernetes.Interface, others ...runtime.Object) *controller {
	t.Helper()
	c := &controller{
		Options: Options{Cluster: "prod", Log: slog.New(slog.DiscardHandler)}, kube: kube, aws: s, owns: true,
		dynamic: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{
				bindings: "TargetGroupBindingList", params: "IngressClassParamsList", autoModeParams: "IngressClassParamsList",
			}, others...),
		recorder: record.NewFakeRecorder(100), told: map[string]bool{},
	}
	if c.watched = watch(kube, c.dynamic); !c.watched.start(t.Context()) {
		t.Fatal("no caches")
	}
	t.Cleanup(c.watched.stop)
	return c
}

// ownBinding returns a user's TargetGroupBinding of the game's Service.
func ownBinding(arn string) *unstructured.Unstructured {
	own := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"targetGroupARN": arn, "serviceRef": map[string]any{"name": "service-2048", "port": int64(80)},
	}}}
	own.SetGroupVersionKind(bindings.GroupVersion().WithKind("TargetGroupBinding"))
	own.SetNamespace("study-aews")
	own.SetName("own")
	return own
}

// registered returns how many targets are registered.
func registered(r *region.Region) (n int) {
	for _, g := range r.TargetGroups() {
		for _, at := range g.Targets {
			if at.DeregisteredAt.IsZero() {
				n++
			}
		}
	}
	return n
}

// A pod that the API server does not return now keeps its target; one that is gone loses it.
func TestAPodThatCannotBeReadKeepsItsTarget(t *testing.T) {
	for _, gate := range []string{slices.Collect(maps.Keys(read(t, game).ingressStacks()[0].targetGroups))[0], "own"} {
		s, r := atAWS(t)
		group, err := r.CreateTargetGroup(region.TargetGroup{
			TargetGroupName: "own", Protocol: "HTTP", Port: 80, TargetType: "ip",
		})
		if err != nil {
			t.Fatal(err)
		}
		o := read(t, strings.ReplaceAll(game, "target-health.elbv2.k8s.aws/game", gatePrefix+gate))
		pod, _ := o.pod("study-aews", "gated")
		objects := []runtime.Object{o.services["study-aews/service-2048"], o.slices["study-aews/service-2048"][0], pod}
		var others []runtime.Object
		if gate == "own" {
			others = append(others, ownBinding(group.TargetGroupARN))
		} else {
			objects = append(objects, o.ingresses[0])
		}
		kube := kubefake.NewClientset(objects...)
		c := controllerOf(t, s, kube, others...)
		var fail error
		kube.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return fail != nil, nil, fail
		})
		want := func(when string, targets int, failed error) {
			t.Helper()
			fail = failed
			if _, err := c.reconcile(t.Context()); !errors.Is(err, failed) || registered(r) != targets {
				t.Errorf("%s, %s: %d targets, want %d; %v", gate, when, registered(r), targets, err)
			}
		}
		want("at first", 3, nil)
		want("the API server is busy", 3, apierrors.NewTooManyRequests("later", 1))
		want("the API server answers", 3, nil)
		if err := kube.CoreV1().Pods("study-aews").Delete(t.Context(), "gated", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		want("without the pod", 2, nil)
	}
}

// As in the AWS Load Balancer Controller, a TargetGroupBinding keeps its target group: the pods would stay registered
// in the earlier one. A name beside an ARN has no effect.
func TestATargetGroupBindingKeepsItsTargetGroup(t *testing.T) {
	props := &apiextensions.JSONSchemaProps{}
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		CRDs()[0].Spec.Versions[0].Schema.OpenAPIV3Schema, props, nil)
	if err != nil {
		t.Fatal(err)
	}
	structural, err := structuralschema.NewStructural(props)
	if err != nil {
		t.Fatal(err)
	}
	rules := cel.NewValidator(structural, true, celconfig.PerCallLimit)
	binding := func(arn, name string) map[string]any {
		o := ownBinding(arn)
		if arn == "" {
			unstructured.RemoveNestedField(o.Object, "spec", "targetGroupARN")
		}
		if name != "" {
			o.Object["spec"].(map[string]any)["targetGroupName"] = name
		}
		return o.Object
	}
	for _, c := range []struct {
		from, to [2]string
		field    string
	}{
		{[2]string{"a", ""}, [2]string{"a", ""}, ""},
		{[2]string{"", "n"}, [2]string{"", "n"}, ""},
		{[2]string{"a", ""}, [2]string{"a", "n"}, ""},
		{[2]string{"a", ""}, [2]string{"b", ""}, "spec.targetGroupARN"},
		{[2]string{"a", "n"}, [2]string{"", "n"}, "spec.targetGroupARN"},
		{[2]string{"", "n"}, [2]string{"", "m"}, "spec.targetGroupName"},
	} {
		found, _ := rules.Validate(t.Context(), nil, structural, binding(c.to[0], c.to[1]), binding(c.from[0], c.from[1]),
			celconfig.RuntimeCELCostBudget)
		if (c.field == "") != (len(found) == 0) || !strings.Contains(fmt.Sprint(found), c.field) {
			t.Errorf("from %q to %q: %v, want %q", c.from, c.to, found, c.field)
		}
	}
}

// The API server refuses another ARN, so a binding of the controller's own is made anew when its target group was.
func TestABindingFollowsItsOwnTargetGroup(t *testing.T) {
	s, _ := atAWS(t)
	old := ownBinding("a")
	old.SetUID("old")
	c := controllerOf(t, s, kubefake.NewClientset(), old)
	spec := ownBinding("b").Object["spec"].(map[string]any)
	if err := c.putBinding(t.Context(), "study-aews", "own", spec, old); err != nil {
		t.Fatal(err)
	}
	got, err := c.dynamic.Resource(bindings).Namespace("study-aews").Get(t.Context(), "own", metav1.GetOptions{})
	if err != nil || specOf(got, "targetGroupARN") != "b" || got.GetUID() == "old" ||
		got.GetLabels()[labelStack] != "own" {
		t.Errorf("the binding is %v, %v", got, err)
	}
}
