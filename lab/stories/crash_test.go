package stories

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/nodeless/nodeless/examples"
)

// kills is how many times the process is killed; NODELESS_KILLS overrides it.
func kills() int {
	if n, err := strconv.Atoi(os.Getenv("NODELESS_KILLS")); err == nil {
		return n
	}
	return 20
}

// The whole process is killed at random moments while 200 pods come and go. In the end everything is as if nothing
// had happened: every pod runs, after the scale-down nothing is left, and nothing was launched twice.
func TestKilledAtRandomMoments(t *testing.T) {
	t.Parallel()
	c := up(t, "--boot-time", "500ms")
	inflate, err := examples.FS.ReadFile("inflate.yaml")
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d kills", seed, kills())
	chance := rand.New(rand.NewPCG(seed, 1))
	// the random moment is the test
	moment := func(within time.Duration) { time.Sleep(time.Duration(chance.Int64N(int64(within)))) }
	crash := func(n int) {
		moment(1500 * time.Millisecond)
		c.stop(syscall.SIGKILL)
		if n%3 == 0 { // and again during its start
			if err := c.spawn(); err != nil {
				t.Fatal(err)
			}
			moment(4 * time.Second)
			c.stop(syscall.SIGKILL)
		}
		c.start()
	}

	c.apply(string(inflate))
	c.kubectl("scale", "deployment", "inflate", "--replicas", "200")
	for n := range kills() / 2 {
		crash(n)
	}
	c.wantPods(120*time.Second, "default", "inflate", 200)
	c.eventually(time.Minute, c.instancesAreClaims)

	c.kubectl("scale", "deployment", "inflate", "--replicas", "0")
	for n := range kills() - kills()/2 {
		crash(n)
	}
	c.wantPods(120*time.Second, "default", "inflate", 0)
	c.eventually(120*time.Second, c.nothingLeft)
	c.nothingLaunchedTwice()
}

// instancesAreClaims compares the region's instances with the cluster's NodeClaims, one to one.
func (c *cluster) instancesAreClaims() error {
	instances, err := c.instances()
	if err != nil {
		return err
	}
	byID := map[string]bool{}
	claimTags := map[string]string{}
	for _, i := range instances {
		byID[*i.InstanceId] = true
		for _, tag := range i.Tags {
			if *tag.Key != "karpenter.sh/nodeclaim" {
				continue
			}
			if twin, ok := claimTags[*tag.Value]; ok {
				return fmt.Errorf("claim %s has two instances: %s and %s", *tag.Value, twin, *i.InstanceId)
			}
			claimTags[*tag.Value] = *i.InstanceId
		}
	}
	claims := c.claims()
	if len(claims) != len(instances) || len(claims) == 0 {
		return fmt.Errorf("%d instances, %d claims", len(instances), len(claims))
	}
	for _, claim := range claims {
		id, ok := claimTags[claim.Name]
		if !ok || !byID[id] {
			return fmt.Errorf("claim %s has no instance", claim.Name)
		}
	}
	return nil
}

// launched is an instance that the region launched at any time.
type launched struct {
	ID   string            `json:"id"`
	Tags map[string]string `json:"tags"`
}

// everything returns every instance the region ever had.
func (c *cluster) everything() []launched {
	c.t.Helper()
	var all []launched
	if err := c.admin("GET", "/_nodeless/instances", nil, &all); err != nil {
		c.t.Fatal(err)
	}
	return all
}

// nothingLaunchedTwice checks that of all instances the region ever had, there is one per NodeClaim. It identifies
// NodeClaims by UID: a NodeClaim that is deleted by hand while its pods still wait is recreated with the same name,
// which is derived from its purpose.
func (c *cluster) nothingLaunchedTwice() {
	c.t.Helper()
	all := c.everything()
	seen := map[string]string{}
	for _, i := range all {
		claim := i.Tags["nodeless.sh/nodeclaim-uid"]
		if claim == "" {
			c.t.Errorf("instance %s does not say for which claim it is", i.ID)
		}
		if twin, ok := seen[claim]; ok {
			c.t.Errorf("claim %s, %s, launched %s and %s", i.Tags["karpenter.sh/nodeclaim"], claim, twin, i.ID)
		}
		seen[claim] = i.ID
	}
	if len(all) == 0 {
		c.t.Error("the region lists no instance at all, not even terminated ones")
	}
	c.t.Logf("%d instances over the whole run, each for a claim of its own", len(all))
}
