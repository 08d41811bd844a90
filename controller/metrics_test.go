package controller_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	promodel "github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller"
	"github.com/nodeless/nodeless/lab/stacktest"
	"github.com/nodeless/nodeless/plane/planetest"
)

// Labels of node metrics, and of the metrics of objects with conditions.
const (
	machineLabels = "arch capacity_reservation_id capacity_reservation_interruptible capacity_reservation_type capacity_type " +
		"instance_accelerator_count instance_accelerator_manufacturer instance_accelerator_name instance_capability_flex instance_category " +
		"instance_cpu instance_cpu_manufacturer instance_cpu_sustained_clock_speed_mhz instance_ebs_bandwidth " +
		"instance_encryption_in_transit_supported instance_family instance_generation instance_gpu_count instance_gpu_manufacturer " +
		"instance_gpu_memory instance_gpu_name instance_hypervisor instance_local_nvme instance_memory instance_network_bandwidth " +
		"instance_size instance_tenancy instance_type managed node_name nodepool os phase placement_group_id " +
		"placement_group_partition region windows_build zone zone_id"
	ofClaim = " karpenter_k8s_aws_ec2nodeclass karpenter_sh_nodepool"
	ofNode  = ofClaim + " karpenter_sh_initialized"
)

// told lists the metrics that dashboards read: name, type, label names (karpenter.sh/docs/reference/metrics; labels
// and types are those of karpenter v1.14.1 and its AWS provider).
var told = map[string]string{
	"karpenter_build_info":                                                "gauge commit goarch goversion version",
	"karpenter_nodeclaims_created_total":                                  "counter min_values_relaxed nodepool reason",
	"karpenter_nodeclaims_terminated_total":                               "counter capacity_type nodepool zone",
	"karpenter_nodeclaims_disrupted_total":                                "counter capacity_type nodepool reason",
	"karpenter_nodeclaims_termination_duration_seconds":                   "histogram nodepool",
	"karpenter_nodeclaims_instance_termination_duration_seconds":          "histogram nodepool",
	"karpenter_nodes_created_total":                                       "counter nodepool zone",
	"karpenter_nodes_terminated_total":                                    "counter nodepool zone",
	"karpenter_nodes_drained_total":                                       "counter nodepool",
	"karpenter_nodes_allocatable":                                         "gauge " + machineLabels + " resource_type",
	"karpenter_nodes_total_pod_requests":                                  "gauge " + machineLabels + " resource_type",
	"karpenter_nodes_total_pod_limits":                                    "gauge " + machineLabels + " resource_type",
	"karpenter_nodes_total_daemon_requests":                               "gauge " + machineLabels + " resource_type",
	"karpenter_nodes_total_daemon_limits":                                 "gauge " + machineLabels + " resource_type",
	"karpenter_nodes_system_overhead":                                     "gauge " + machineLabels + " resource_type",
	"karpenter_nodes_termination_duration_seconds":                        "summary nodepool",
	"karpenter_nodes_lifetime_duration_seconds":                           "histogram nodepool",
	"karpenter_nodes_current_lifetime_seconds":                            "gauge " + machineLabels,
	"karpenter_pods_state":                                                "gauge arch capacity_type instance_type managed name namespace node nodepool owner phase ready scheduled zone",
	"karpenter_pods_startup_duration_seconds":                             "summary",
	"karpenter_pods_bound_duration_seconds":                               "histogram",
	"karpenter_pods_unbound_time_seconds":                                 "gauge name namespace",
	"karpenter_pods_unstarted_time_seconds":                               "gauge name namespace",
	"karpenter_pods_scheduling_decision_duration_seconds":                 "histogram",
	"karpenter_pods_eviction_requests_total":                              "counter code",
	"karpenter_pods_drained_total":                                        "counter reason",
	"karpenter_pods_provisioning_unstarted_time_seconds":                  "gauge name namespace",
	"karpenter_pods_provisioning_unbound_time_seconds":                    "gauge name namespace",
	"karpenter_pods_provisioning_startup_duration_seconds":                "histogram",
	"karpenter_pods_provisioning_bound_duration_seconds":                  "histogram",
	"karpenter_pods_provisioning_scheduling_undecided_time_seconds":       "gauge name namespace",
	"karpenter_interruption_received_messages_total":                      "counter message_type",
	"karpenter_interruption_deleted_messages_total":                       "counter",
	"karpenter_interruption_message_queue_duration_seconds":               "histogram",
	"karpenter_interruption_instance_status_unhealthy_total":              "counter category",
	"karpenter_nodeclaims_unhealthy_disrupted_total":                      "counter capacity_type condition image_id nodepool",
	"karpenter_voluntary_disruption_decision_evaluation_duration_seconds": "histogram consolidation_type reason",
	"karpenter_voluntary_disruption_failed_validations_total":             "counter consolidation_type",
	"karpenter_voluntary_disruption_queue_failures_total":                 "counter consolidation_type decision reason",
	"karpenter_nodepools_usage":                                           "gauge nodepool resource_type",
	"karpenter_nodepools_limit":                                           "gauge nodepool resource_type",
	"karpenter_nodepools_allowed_disruptions":                             "gauge nodepool reason",
	"karpenter_nodepools_nodes_consuming_budgets":                         "gauge nodepool reason",
	"karpenter_nodepools_cost_total":                                      "gauge nodepool",
	"karpenter_voluntary_disruption_decisions_total":                      "counter consolidation_type decision reason",
	"karpenter_voluntary_disruption_decisions_by_nodepool_total":          "counter consolidation_type decision nodepool reason",
	"karpenter_voluntary_disruption_consolidation_timeouts_total":         "counter consolidation_type",
	"karpenter_scheduler_scheduling_duration_seconds":                     "histogram controller",
	"karpenter_scheduler_queue_depth":                                     "gauge controller scheduling_id",
	"karpenter_scheduler_unschedulable_pods_count":                        "gauge controller",
	"karpenter_scheduler_ignored_pods_count":                              "gauge",
	"karpenter_scheduler_unfinished_work_seconds":                         "gauge controller scheduling_id",
	"karpenter_scheduler_pending_pods_by_effective_zone_count":            "gauge controller zone",
	"karpenter_cluster_state_synced":                                      "gauge",
	"karpenter_cluster_state_node_count":                                  "gauge",
	"karpenter_cluster_state_unsynced_time_seconds":                       "gauge",
	"karpenter_cluster_utilization_percent":                               "gauge resource_type",
	"karpenter_ec2nodeclasses_userdata_bytes":                             "gauge nodeclass",
	"karpenter_cloudprovider_duration_seconds":                            "histogram controller method provider",
	"karpenter_cloudprovider_errors_total":                                "counter controller error method provider",
	"karpenter_cloudprovider_instance_type_offering_price_estimate":       "gauge capacity_type instance_type zone",
	"karpenter_cloudprovider_instance_type_offering_available":            "gauge capacity_type instance_type zone",
	"karpenter_cloudprovider_instance_type_cpu_cores":                     "gauge instance_type",
	"karpenter_cloudprovider_instance_type_memory_bytes":                  "gauge instance_type",
	"karpenter_cloudprovider_batcher_batch_time_seconds":                  "histogram batcher",
	"karpenter_cloudprovider_batcher_batch_size":                          "histogram batcher",
}

func init() {
	for kind, labels := range map[string]string{"nodeclaim": ofClaim, "node": ofNode, "nodepool": "", "ec2nodeclass": ""} {
		prefix := "operator_" + kind
		told[prefix+"_status_condition_count"] = "gauge name namespace reason status type" + labels
		told[prefix+"_status_condition_current_status_seconds"] = "gauge name namespace reason status type" + labels
		told[prefix+"_status_condition_transitions_total"] = "counter reason status type" + labels
		told[prefix+"_status_condition_transition_seconds"] = "histogram status type" + labels
		told[prefix+"_termination_current_time_seconds"] = "gauge name namespace" + labels
		told[prefix+"_termination_duration_seconds"] = "histogram" + labels
	}
}

// another lists the metrics whose events do not happen in this test; docs/what-does-it-tell-prometheus.md says when
// they do.
var another = []string{
	"karpenter_cloudprovider_errors_total", "operator_node_termination_current_time_seconds",
	"operator_nodeclaim_termination_current_time_seconds",
	"operator_nodepool_termination", "operator_ec2nodeclass_termination", "karpenter_pods_eviction_requests_total",
	"karpenter_pods_drained_total",
	"karpenter_interruption_", "karpenter_nodeclaims_unhealthy_disrupted_total",
	"karpenter_pods_provisioning_scheduling_undecided_time_seconds",
	"karpenter_voluntary_disruption_failed_validations_total", "karpenter_voluntary_disruption_queue_failures_total",
	"operator_node_status_condition_transition_seconds", "operator_nodepool_status_condition_transition_seconds",
	"operator_ec2nodeclass_status_condition_transition_seconds",
}

var metricName = regexp.MustCompile(`(?:karpenter|nodeless|operator)_[a-z0-9_]+`)

// Our own chart's dashboards query only metrics that exist, and labels that these metrics have.
func TestOurDashboardsAskForWhatIsTold(t *testing.T) {
	page, err := os.ReadFile("../docs/what-does-it-tell-prometheus.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../charts/nodeless/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var dashboard struct {
			UID, Title string
			Panels     []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(text, &dashboard); err != nil || dashboard.UID == "" || len(dashboard.Panels) == 0 {
			t.Errorf("%s is no dashboard: %v", file, err)
		}
		for _, p := range dashboard.Panels {
			for _, target := range p.Targets {
				names := metricName.FindAllString(target.Expr, -1)
				if len(names) == 0 {
					t.Errorf("%s, %s: %q asks for nothing", dashboard.Title, p.Title, target.Expr)
				}
				for _, name := range names {
					whole := strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count")
					if told[name] == "" && told[whole] == "" && !strings.Contains(string(page), "`"+whole+"`") {
						t.Errorf("%s, %s: nobody tells %s", dashboard.Title, p.Title, name)
					}
					for _, label := range []string{"nodepool", "reason", "code", "method", "message_type", "capacity_type"} {
						asked := strings.Contains(target.Expr, "("+label) || strings.Contains(target.Expr, ", "+label)
						if kind := told[whole]; asked && kind != "" && !slices.Contains(strings.Fields(kind), label) {
							t.Errorf("%s, %s: %s has no label %s", dashboard.Title, p.Title, whole, label)
						}
					}
				}
			}
		}
	}
}

func TestDashboardsFindWhatTheyKnow(t *testing.T) {
	s := stacktest.Start(t)
	at := address(t)
	<-s.Controller(t, func(o *controller.Options) { o.MetricsAddress = at }).Leads
	limit(t, s, startup)
	namespace := planetest.Namespace(t, s.Plane)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("1")},
		Limits:   corev1.ResourceList{"memory": resource.MustParse("1Gi")},
	}}}

	seen := map[string]*dto.MetricFamily{}
	note := func() { maps.Copy(seen, scrape(t, at)) }
	create(t, s.Client, pod)
	planetest.Eventually(t, "the pod's waiting is told", func(context.Context) error {
		note()
		for name := range told {
			if strings.HasPrefix(name, "karpenter_pods_provisioning_un") && seen[name] == nil {
				return fmt.Errorf("/metrics lacks %s", name)
			}
		}
		return nil
	})
	letIn(t, s)
	planetest.Eventually(t, "the pod runs", func(ctx context.Context) error {
		note()
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil ||
			pod.Status.Phase == corev1.PodRunning {
			return err
		}
		return errors.New("not yet")
	})
	note()
	if err := s.Client.Delete(context.Background(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	gone(t, s)
	planetest.Eventually(t, "the last of the machine is counted", func(context.Context) error {
		note()
		for name := range told {
			if seen[name] == nil && !slices.ContainsFunc(another, func(p string) bool { return strings.HasPrefix(name, p) }) {
				return fmt.Errorf("/metrics lacks %s", name)
			}
		}
		return nil
	})
	for name, want := range told {
		if f := seen[name]; f != nil && described(f) != sorted(want) {
			t.Errorf("%s is told as\n  %s, want\n  %s", name, described(f), sorted(want))
		}
	}
	for name := range seen {
		known := told[name] != "" || strings.HasPrefix(name, "nodeless_") || strings.HasPrefix(name, "go_") ||
			strings.HasPrefix(name, "process_")
		if !known {
			t.Errorf("%s is told; nobody knows it", name)
		}
	}
	planetest.Eventually(t, "what is gone leaves no series, which would add up for ever", func(context.Context) error {
		return tracesOf(scrape(t, at), namespace)
	})
}

// tracesOf returns an error that names the remaining series of the namespace's objects, of nodes and of NodeClaims.
func tracesOf(now map[string]*dto.MetricFamily, namespace string) (err error) {
	for name, f := range now {
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if l.GetValue() == namespace || strings.HasSuffix(l.GetValue(), ".compute.internal") ||
					strings.HasPrefix(l.GetValue(), "general-purpose-") {
					err = errors.Join(err, fmt.Errorf("%s still tells of %s=%s: %v", name, l.GetName(), l.GetValue(), m.Label))
				}
			}
		}
	}
	return err
}

// startup keeps pods off a new node until letIn removes it.
var startup = corev1.Taint{Key: "example.com/starts", Effect: corev1.TaintEffectNoSchedule}

// letIn removes the startup taint from the node once it is registered: until then the claim's taints are reapplied.
func letIn(t *testing.T, s *stacktest.Stack) {
	t.Helper()
	planetest.Eventually(t, "the node has no startup taint", func(ctx context.Context) error {
		var nodes corev1.NodeList
		if err := s.Client.List(ctx, &nodes); err != nil {
			return err
		}
		if len(nodes.Items) != 1 {
			return fmt.Errorf("%d nodes", len(nodes.Items))
		}
		n := &nodes.Items[0]
		if n.Labels[karpv1.NodeRegisteredLabelKey] != "true" {
			return fmt.Errorf("node %s is not registered", n.Name)
		}
		i := slices.IndexFunc(n.Spec.Taints, func(of corev1.Taint) bool { return of.MatchTaint(&startup) })
		if i < 0 {
			return fmt.Errorf("node %s has no such taint yet", n.Name)
		}
		n.Spec.Taints = slices.Delete(n.Spec.Taints, i, i+1)
		return s.Client.Update(ctx, n)
	})
}

// limit gives the pool limits, so that their metrics exist, and startup taints.
func limit(t *testing.T, s *stacktest.Stack, taints ...corev1.Taint) {
	planetest.Eventually(t, "the pool is limited", func(ctx context.Context) error {
		pool := &karpv1.NodePool{}
		if err := s.Client.Get(ctx, client.ObjectKey{Name: "general-purpose"}, pool); err != nil {
			return err
		}
		pool.Spec.Limits = karpv1.Limits{"cpu": resource.MustParse("100")}
		pool.Spec.Template.Spec.StartupTaints = taints
		after := metav1.Duration{Duration: time.Second}
		pool.Spec.Disruption.ConsolidateAfter = karpv1.NillableDuration{Duration: &after.Duration}
		return s.Client.Update(ctx, pool)
	})
}

// gone waits until there are no NodeClaims and no Nodes.
func gone(t *testing.T, s *stacktest.Stack) {
	t.Helper()
	planetest.Eventually(t, "the machine is gone", func(ctx context.Context) error {
		var claims karpv1.NodeClaimList
		var nodes corev1.NodeList
		if err := errors.Join(s.Client.List(ctx, &claims), s.Client.List(ctx, &nodes)); err != nil {
			return err
		}
		if n := len(claims.Items) + len(nodes.Items); n > 0 {
			return fmt.Errorf("%d claims and nodes are left", n)
		}
		return nil
	})
}

func create(t *testing.T, c client.Client, o client.Object) {
	t.Helper()
	if err := c.Create(context.Background(), o); err != nil {
		t.Fatal(err)
	}
}

// scrape reads /metrics as Prometheus does.
func scrape(t *testing.T, address string) map[string]*dto.MetricFamily {
	t.Helper()
	code, body := get(t, address, "/metrics")
	if code != 200 {
		t.Fatalf("/metrics: %d %s", code, body)
	}
	parser := expfmt.NewTextParser(promodel.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// described returns a family's type and label names.
func described(f *dto.MetricFamily) string {
	names := map[string]bool{}
	for _, m := range f.Metric {
		for _, l := range m.Label {
			names[l.GetName()] = true
		}
	}
	return strings.Join(append([]string{strings.ToLower(f.GetType().String())}, slices.Sorted(maps.Keys(names))...), " ")
}

// sorted returns a line of told with its labels in order.
func sorted(line string) string {
	words := strings.Fields(line)
	slices.Sort(words[1:])
	return strings.Join(words, " ")
}
