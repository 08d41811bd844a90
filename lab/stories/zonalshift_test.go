package stories

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
)

// While traffic is shifted away from a zone, no node is launched there. Pods that may run elsewhere do; a pod that
// may not waits, is told why, and gets its node when the shift ends.
func TestAZonalShift(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", "1s")
	arc := arczonalshift.NewFromConfig(c.aws)
	cluster, err := eks.NewFromConfig(c.aws).DescribeCluster(t.Context(), &eks.DescribeClusterInput{Name: new("nodeless")})
	if err != nil {
		t.Fatal(err)
	}
	start := func(zone string) (*arczonalshift.StartZonalShiftOutput, error) {
		return arc.StartZonalShift(context.Background(), &arczonalshift.StartZonalShiftInput{
			ResourceIdentifier: cluster.Cluster.Arn, AwayFrom: &zone, ExpiresIn: new("2h"), Comment: new("a fire"),
		})
	}
	_, err = start("us-west-2a")
	if _, ok := errors.AsType[*types.ValidationException](err); !ok {
		t.Errorf("the name of a zone in the place of its ID: %v", err)
	}
	shift, err := start("usw2-az1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = start("usw2-az2")
	if _, ok := errors.AsType[*types.ConflictException](err); !ok {
		t.Errorf("a second shift: %v", err)
	}
	c.wantEvents("reason=ZonalShiftActive",
		"Zonal shift detected: offerings in zone us-west-2a (usw2-az1) are unavailable for this NodePool")
	c.apply(inZone("here", "us-west-2a"))
	c.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=6")
	c.kubectl("set", "resources", "deployment", "web", "--requests=cpu=1500m")
	c.wantPods(2*time.Minute, "default", "web", 6)
	c.eventually(time.Minute, func() error {
		want := "a zonal shift moves traffic away from us-west-2a until " + shift.ExpiryTime.UTC().Format(time.RFC3339)
		if out, err := c.run("why", "pod", "here"); err != nil || !strings.Contains(out, want) {
			return fmt.Errorf("why does not say %q: %v\n%s", want, err, out)
		}
		return nil
	})
	for _, n := range c.nodes() {
		if n.Labels["topology.kubernetes.io/zone"] == "us-west-2a" {
			t.Errorf("node %s is in the shifted zone", n.Name)
		}
	}
	if _, err := arc.CancelZonalShift(t.Context(),
		&arczonalshift.CancelZonalShiftInput{ZonalShiftId: shift.ZonalShiftId}); err != nil {
		t.Fatal(err)
	}
	c.eventually(2*time.Minute, func() error {
		if phase := c.kubectl("get", "pod", "here", "-o", "jsonpath={.status.phase}"); phase != "Running" {
			return fmt.Errorf("the pod that waited for the zone is %s", phase)
		}
		return nil
	})
	c.wantEvents("reason=ZonalShiftCleared", "us-west-2a (usw2-az1) are restored")
	listed, err := arc.ListZonalShifts(t.Context(), &arczonalshift.ListZonalShiftsInput{ResourceIdentifier: cluster.Cluster.Arn})
	if err != nil || len(listed.Items) != 1 || aws.ToString(listed.Items[0].Comment) != "a fire" ||
		listed.Items[0].Status != types.ZonalShiftStatusCanceled {
		t.Errorf("shifts: %+v, %v", listed, err)
	}
}

// inZone returns a pod that may run in one zone.
func inZone(name, zone string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  nodeSelector: {topology.kubernetes.io/zone: %s}
  containers: [{name: app, image: nginx, resources: {requests: {cpu: 100m}}}]
`, name, zone)
}
