package capture_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/internal/kit/manifest"
	"github.com/nodeless/nodeless/lab/apisim"
)

// recaptured loads a dump as a cluster whose objects went through a capture.
func recaptured(t *testing.T, text string) *capture.Cluster {
	t.Helper()
	c, err := capture.Load(t.Context(), strings.NewReader(text), "cluster.yaml", capture.Options{Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	captured := "apiVersion: nodeless.sh/v1alpha1\nkind: Capture\n---\n"
	for _, o := range c.Objects() {
		o := capture.Redact(o)
		gvk, err := apiutil.GVKForObject(o, scheme.Scheme)
		if err != nil {
			t.Fatal(err)
		}
		o.GetObjectKind().SetGroupVersionKind(gvk)
		one, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		captured += string(one) + "\n---\n"
	}
	captured += fmt.Sprintf("apiVersion: nodeless.sh/v1alpha1\nkind: CaptureEnd\nobjects: %d\n", len(c.Objects()))
	if c, err = capture.Load(t.Context(), strings.NewReader(captured), "capture.yaml", capture.Options{}); err != nil {
		t.Fatal(err)
	}
	return c
}

// claimed is a pending pod whose claim, made from a template, has devices of a node.
const claimed = `apiVersion: v1
kind: Pod
metadata: {name: train, namespace: shop, uid: t}
spec:
  containers: [{name: c, image: i}]
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
status: {phase: Pending, resourceClaimStatuses: [{name: gpu, resourceClaimName: train-gpu-x}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: train-gpu-x
  namespace: shop
  uid: x
  ownerReferences: [{apiVersion: v1, kind: Pod, name: train, uid: t, controller: true}]
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 1}}]}}
status:
  allocation:
    devices: {results: [{request: r, driver: gpu, pool: n1, device: gpu-0}]}
    nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one, namespace: shop, uid: o}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 1}}]}}}
---
`

// devices are the other kinds that say where claims can be met.
const devices = `apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu, uid: g}
spec: {}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: n1-gpu, uid: s}
spec:
  driver: gpu
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}]
`

// shapeOf returns the shape of the only pending pod.
func shapeOf(t *testing.T, c *capture.Cluster) model.Shape {
	t.Helper()
	s := c.Snapshot()
	if len(s.Pending) != 1 {
		t.Fatalf("%d pods are pending", len(s.Pending))
	}
	return s.Shapes[s.Pending[0].Shape]
}

// A pod that waits for the node of its devices still does in a capture: its status names the claim that was made from
// a template.
func TestACaptureHoldsTheClaimsOfPods(t *testing.T) {
	got := shapeOf(t, recaptured(t, claimed+devices))
	if text := fmt.Sprint(got.Volumes); !strings.Contains(text, "resourceClaim train-gpu-x") ||
		!strings.Contains(text, "metadata.name In [n1]") || got.Blocked != "" ||
		len(got.Unmodelled) > 0 {
		t.Errorf("%+v", got)
	}
}

// A capture holds the disks by which pods keep apart, without what is needed to open them.
func TestACaptureHoldsDisks(t *testing.T) {
	for label, disk := range map[string]string{
		"gcePersistentDisk d": "gcePersistentDisk: {pdName: d, readOnly: true}",
		"iscsi q": "iscsi: {iqn: q, lun: 1, readOnly: true, targetPortal: s3cr3t, initiatorName: s3cr3t, " +
			"secretRef: {name: s3cr3t}}",
		"rbd m/p/i": "rbd: {monitors: [m], pool: p, image: i, readOnly: true, user: s3cr3t, keyring: s3cr3t, " +
			"secretRef: {name: s3cr3t}}",
	} {
		text := `apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, uid: w}
spec: {containers: [{name: c, image: i}], volumes: [{name: v, ` + disk + `}]}
`
		got := shapeOf(t, recaptured(t, text))
		if want := (model.Label{Key: "inline volume " + label, Value: "read-only"}); !slices.Contains(got.Labels, want) {
			t.Errorf("%s: labels %v, want %v", disk, got.Labels, want)
		}
		c, err := capture.Load(t.Context(), strings.NewReader(text), "cluster.yaml", capture.Options{Keep: true})
		if err != nil {
			t.Fatal(err)
		}
		if kept, _ := json.Marshal(c.Objects()); strings.Contains(string(kept), "s3cr3t") {
			t.Errorf("a secret is kept: %s", kept)
		}
	}
}

// A capture holds what drivers report about the storage that they have left.
func TestACaptureHoldsStorageCapacity(t *testing.T) {
	got := shapeOf(t, recaptured(t, `apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, uid: w}
spec: {containers: [{name: c, image: i}], volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop}
spec: {storageClassName: array, resources: {requests: {storage: 20Gi}}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: array}
provisioner: disks
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: disks}
spec: {storageCapacity: true}
---
apiVersion: storage.k8s.io/v1
kind: CSIStorageCapacity
metadata: {name: a, namespace: disks}
storageClassName: array
nodeTopology: {matchLabels: {topology.kubernetes.io/zone: a}}
capacity: 5Gi
`))
	const want = "storageClass array has less than the 20Gi requested: 5Gi at topology.kubernetes.io/zone In [a]"
	if len(got.Volumes) != 1 || got.Volumes[0].Short != want {
		t.Errorf("got %+v, want %q", got.Volumes, want)
	}
}

// Without one of the kinds that say where claims can be met, claims are not judged. A file that has none of them, and
// no pod with a claim, lacks nothing.
func TestADumpWithoutDevicesDoesNotJudgeClaims(t *testing.T) {
	for name, text := range map[string]string{
		"without classes and slices": claimed, "of pods alone": claimed[:strings.Index(claimed, "---\n")],
		"with gaps": "apiVersion: nodeless.sh/v1alpha1\nkind: Capture\ngaps: [\"not allowed to list " +
			"resourceslices.resource.k8s.io in the whole cluster\"]\n---\n" + claimed + devices +
			"---\napiVersion: nodeless.sh/v1alpha1\nkind: CaptureEnd\nobjects: 5\n",
	} {
		c, err := capture.Load(t.Context(), strings.NewReader(text), "cluster.yaml", capture.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := shapeOf(t, c); !slices.Equal(got.Unmodelled, []string{"resourceClaims"}) || got.Blocked != "" ||
			!c.NoDevices() || len(c.Gaps()) == 0 {
			t.Errorf("%s: gaps %v, %+v", name, c.Gaps(), got)
		}
	}
	// kubectl prints none of a kind without objects: no template is needed where each claim exists, nor a slice before
	// there is a node with devices
	template, slice := strings.Index(claimed, "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate"),
		strings.Index(devices, "---\napiVersion: resource.k8s.io/v1\nkind: ResourceSlice")
	for _, text := range []string{listed, claimed + devices, claimed[:template] + "---\n" + devices[:slice]} {
		c, err := capture.Load(t.Context(), strings.NewReader(text), "cluster.yaml", capture.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if c.NoDevices() {
			t.Errorf("devices are ignored in\n%s", text)
		}
	}
}

// refusing is an API server that refuses to list some kinds.
type refusing struct {
	api   *apisim.Server
	kinds []string
}

func (r refusing) RoundTrip(req *http.Request) (*http.Response, error) {
	if resource := path.Base(req.URL.Path); slices.Contains(r.kinds, resource) {
		body := `{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403}`
		return &http.Response{
			StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
			Body: io.NopCloser(strings.NewReader(body)),
		}, nil
	}
	return r.api.RoundTrip(req)
}

// Whoever may not read DeviceClasses and ResourceSlices is told nothing of claims, as from the controller.
func TestClaimsAreNotJudgedWithoutTheirDevices(t *testing.T) {
	api := apisim.New()
	admin, err := client.New(api.Config("admin", nil), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	err = manifest.Each(strings.NewReader(claimed+devices), func(i manifest.Item) error {
		o, err := i.Object()
		if err != nil {
			return err
		}
		return admin.Create(t.Context(), o)
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, start := range map[string]func(*rest.Config) (*capture.Cluster, error){
		"read": func(cfg *rest.Config) (*capture.Cluster, error) {
			return capture.Read(t.Context(), cfg, capture.Options{})
		},
		"watched": func(cfg *rest.Config) (*capture.Cluster, error) {
			return capture.Open(t.Context(), cfg, capture.Options{})
		},
	} {
		for _, refused := range [][]string{nil, {"deviceclasses", "resourceslices"}} {
			c, err := start(api.Config("viewer", refusing{api, refused}))
			if err != nil {
				t.Fatal(err)
			}
			got := shapeOf(t, c)
			if unmodelled := slices.Equal(got.Unmodelled, []string{"resourceClaims"}); unmodelled != (refused != nil) ||
				c.NoDevices() != unmodelled || unmodelled && got.Blocked != "" || len(c.Gaps()) != len(refused) {
				t.Errorf("%s without %v: gaps %v, shape %+v", name, refused, c.Gaps(), got)
			}
		}
	}
}
