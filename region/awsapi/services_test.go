package awsapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/region"
)

// memoryRegion returns a region without a folder, its clock, and a client configuration for its endpoint.
func memoryRegion(t *testing.T) (*region.Region, *clock.Virtual, aws.Config) {
	t.Helper()
	v := clock.NewVirtual(time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC))
	r, err := region.Open(region.Config{Name: "us-west-2", Seed: 1, Clock: v})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.SetCluster(region.ClusterInfo{
		Name: "prod", Version: "1.36", Endpoint: "https://127.0.0.1:6443",
		CA: "PEM", ServiceCIDR: "10.100.0.0/16", Issuer: "https://issuer",
	}); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(New(r, Options{}))
	t.Cleanup(func() { s.Close(); _ = r.Close() })
	return r, v, configFor(s.URL, "us-west-2")
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestAProfileIsMadeGivenARoleAndDeleted(t *testing.T) {
	_, _, config := memoryRegion(t)
	client, name := iam.NewFromConfig(config), aws.String("prod_1")
	must[*iam.CreateInstanceProfileOutput](t)(client.CreateInstanceProfile(t.Context(), &iam.CreateInstanceProfileInput{
		InstanceProfileName: name, Path: aws.String("/karpenter/"),
		Tags: []iamtypes.Tag{{Key: aws.String("a"), Value: aws.String("b")}},
	}))
	_, err := client.CreateInstanceProfile(t.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: name})
	wantCode(t, err, "EntityAlreadyExists")
	role := aws.String("nodeless-node")
	must[*iam.AddRoleToInstanceProfileOutput](t)(client.AddRoleToInstanceProfile(t.Context(),
		&iam.AddRoleToInstanceProfileInput{InstanceProfileName: name, RoleName: role}))
	must[*iam.TagInstanceProfileOutput](t)(client.TagInstanceProfile(t.Context(), &iam.TagInstanceProfileInput{
		InstanceProfileName: name, Tags: []iamtypes.Tag{{Key: aws.String("c"), Value: aws.String("d")}},
	}))
	got := must[*iam.GetInstanceProfileOutput](t)(client.GetInstanceProfile(t.Context(),
		&iam.GetInstanceProfileInput{InstanceProfileName: name})).InstanceProfile
	if len(got.Roles) != 1 || *got.Roles[0].RoleName != *role || len(got.Tags) != 2 || got.CreateDate.Year() != 2026 ||
		*got.Arn != "arn:aws:iam::123456789012:instance-profile/karpenter/prod_1" {
		t.Errorf("profile %+v", got)
	}
	_, err = client.DeleteInstanceProfile(t.Context(), &iam.DeleteInstanceProfileInput{InstanceProfileName: name})
	wantCode(t, err, "DeleteConflict")
	must[*iam.RemoveRoleFromInstanceProfileOutput](t)(client.RemoveRoleFromInstanceProfile(t.Context(),
		&iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: name, RoleName: role}))
	must[*iam.DeleteInstanceProfileOutput](t)(client.DeleteInstanceProfile(t.Context(),
		&iam.DeleteInstanceProfileInput{InstanceProfileName: name}))
	_, err = client.GetInstanceProfile(t.Context(), &iam.GetInstanceProfileInput{InstanceProfileName: name})
	wantCode(t, err, "NoSuchEntity")
	_, err = client.GetRole(t.Context(), &iam.GetRoleInput{RoleName: aws.String("missing-role")})
	wantCode(t, err, "NoSuchEntity")
}

func TestProfilesAreListedByPathAndPage(t *testing.T) {
	r, _, config := memoryRegion(t)
	for name, path := range map[string]string{"a": "/karpenter/", "b": "/karpenter/", "c": "/karpenter/", "z": "/"} {
		must[region.InstanceProfile](t)(r.CreateInstanceProfile(name, path, nil))
	}
	pages := iam.NewListInstanceProfilesPaginator(iam.NewFromConfig(config),
		&iam.ListInstanceProfilesInput{PathPrefix: aws.String("/karpenter/"), MaxItems: aws.Int32(2)})
	var names []string
	for pages.HasMorePages() {
		for _, p := range must[*iam.ListInstanceProfilesOutput](t)(pages.NextPage(t.Context())).InstanceProfiles {
			names = append(names, *p.InstanceProfileName)
		}
	}
	if strings.Join(names, "") != "abc" {
		t.Errorf("listed %v", names)
	}
}

func TestCallerClusterAndImagesAreTold(t *testing.T) {
	r, v, config := memoryRegion(t)
	if who := must[*sts.GetCallerIdentityOutput](t)(sts.NewFromConfig(config).GetCallerIdentity(t.Context(),
		nil)); *who.Account != region.AccountID {
		t.Errorf("account %s", *who.Account)
	}
	k := eks.NewFromConfig(config)
	if list := must[*eks.ListClustersOutput](t)(k.ListClusters(t.Context(), nil)); len(list.Clusters) != 1 ||
		list.Clusters[0] != "prod" {
		t.Errorf("clusters %v", list.Clusters)
	}
	c := must[*eks.DescribeClusterOutput](t)(k.DescribeCluster(t.Context(),
		&eks.DescribeClusterInput{Name: aws.String("prod")})).Cluster
	if *c.Endpoint != "https://127.0.0.1:6443" || *c.CertificateAuthority.Data != "UEVN" ||
		*c.KubernetesNetworkConfig.ServiceIpv4Cidr != "10.100.0.0/16" || c.Status != "ACTIVE" {
		t.Errorf("cluster %+v", c)
	}
	if !c.CreatedAt.Equal(v.Now()) || *c.Identity.Oidc.Issuer != "https://issuer" || *c.ComputeConfig.Enabled ||
		*c.KubernetesNetworkConfig.ElasticLoadBalancing.Enabled || *c.StorageConfig.BlockStorage.Enabled {
		t.Errorf("cluster of %v, identity %+v, compute %+v", c.CreatedAt, c.Identity.Oidc, c.ComputeConfig)
	}
	v.Advance(time.Hour)
	if err := r.SetCluster(region.ClusterInfo{
		Name: "prod", AutoMode: &region.AutoMode{NodePools: []string{"system"}, NodeRole: "nodes"},
	}); err != nil {
		t.Fatal(err)
	}
	c = must[*eks.DescribeClusterOutput](t)(k.DescribeCluster(t.Context(),
		&eks.DescribeClusterInput{Name: aws.String("prod")})).Cluster
	if auto := c.ComputeConfig; !*auto.Enabled || !slices.Equal(auto.NodePools, []string{"system"}) ||
		*auto.NodeRoleArn != "arn:aws:iam::123456789012:role/nodes" || !c.CreatedAt.Equal(v.Now().Add(-time.Hour)) {
		t.Errorf("an hour later of %v, compute %+v", c.CreatedAt, auto)
	}
	_, err := k.DescribeCluster(t.Context(), &eks.DescribeClusterInput{Name: aws.String("nobody")})
	wantCode(t, err, "ResourceNotFoundException")

	params, base := ssm.NewFromConfig(config), "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/arm64/"
	one := must[*ssm.GetParameterOutput](t)(params.GetParameter(t.Context(),
		&ssm.GetParameterInput{Name: aws.String(base + "standard/recommended/image_id")}))
	if !strings.HasPrefix(*one.Parameter.Value, "ami-") {
		t.Errorf("image %s", *one.Parameter.Value)
	}
	_, err = params.GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String("/no/such")})
	wantCode(t, err, "ParameterNotFound")
	some := must[*ssm.GetParametersOutput](t)(params.GetParameters(t.Context(),
		&ssm.GetParametersInput{Names: []string{"/no/such", *one.Parameter.Name}}))
	if len(some.Parameters) != 1 || len(some.InvalidParameters) != 1 {
		t.Errorf("parameters %v, invalid %v", some.Parameters, some.InvalidParameters)
	}
	pages, found := ssm.NewGetParametersByPathPaginator(params,
		&ssm.GetParametersByPathInput{Path: aws.String(base), Recursive: aws.Bool(true), MaxResults: aws.Int32(4)}), 0
	for pages.HasMorePages() {
		found += len(must[*ssm.GetParametersByPathOutput](t)(pages.NextPage(t.Context())).Parameters)
	}
	if found != 6 { // standard, nvidia and neuron, each by release and as recommended
		t.Errorf("%d parameters below %s, want 6", found, base)
	}
}

func TestAMessageIsReceivedHiddenSeenAgainAndDeleted(t *testing.T) {
	r, v, config := memoryRegion(t)
	client := sqs.NewFromConfig(config)
	url := must[*sqs.GetQueueUrlOutput](t)(client.GetQueueUrl(t.Context(),
		&sqs.GetQueueUrlInput{QueueName: aws.String("prod")})).QueueUrl
	must[*sqs.SendMessageOutput](t)(client.SendMessage(t.Context(),
		&sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String(`{"a":"<b>"}`)}))
	receive := func() []sqstypes.Message {
		return must[*sqs.ReceiveMessageOutput](t)(client.ReceiveMessage(t.Context(),
			&sqs.ReceiveMessageInput{
				QueueUrl: url, MaxNumberOfMessages: 10, VisibilityTimeout: 20,
				MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{"All"},
			})).Messages
	}
	if got := receive(); len(got) != 1 || *got[0].Body != `{"a":"<b>"}` || got[0].Attributes["SentTimestamp"] == "" {
		t.Fatalf("received %+v", got)
	}
	if got := receive(); len(got) != 0 {
		t.Fatalf("a hidden message came again: %+v", got)
	}
	v.Advance(21 * time.Second)
	again := receive()
	if len(again) != 1 || again[0].Attributes["ApproximateReceiveCount"] != "2" {
		t.Fatalf("after the time of hiding: %+v", again)
	}
	must[*sqs.DeleteMessageOutput](t)(client.DeleteMessage(t.Context(),
		&sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: again[0].ReceiptHandle}))
	if n, err := r.Queue("prod"); n != 0 || err != nil {
		t.Errorf("%d messages left, %v", n, err)
	}
	_, err := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("nobody")})
	if wantCode(t, err, "AWS.SimpleQueueService.NonExistentQueue"); err == nil ||
		!strings.Contains(err.Error(), "does not exist") {
		t.Errorf("no such queue: %v", err)
	}
	_, err = client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url, WaitTimeSeconds: 21})
	wantCode(t, err, "InvalidParameterValue")
}

func TestALongPollEndsWithAMessageWithTimeOrWithItsCaller(t *testing.T) {
	r, v, config := memoryRegion(t)
	client := sqs.NewFromConfig(config)
	url := must[*sqs.GetQueueUrlOutput](t)(client.GetQueueUrl(t.Context(),
		&sqs.GetQueueUrlInput{QueueName: aws.String("prod")})).QueueUrl
	type result struct {
		n   int
		err error
	}
	poll := func(ctx context.Context) <-chan result {
		done := make(chan result, 1)
		go func() {
			out, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: url, WaitTimeSeconds: 20})
			if err != nil {
				done <- result{err: err}
				return
			}
			done <- result{n: len(out.Messages)}
		}()
		waitFor(t, func() bool { _, waiting := v.Next(); return waiting })
		return done
	}
	done := poll(t.Context())
	must[string](t)(r.SendMessage("prod", "hello"))
	if got := <-done; got.n != 1 || got.err != nil {
		t.Errorf("a message that came: %+v", got)
	}
	done = poll(t.Context())
	started := v.Now()
	waitFor(t, func() bool {
		if _, waiting := v.Next(); waiting {
			v.Advance(time.Second)
		}
		return len(done) == 1
	})
	if got, took := <-done, v.Now().Sub(started); got.n != 0 || got.err != nil || took < 20*time.Second {
		t.Errorf("without a message: %+v after %s", got, took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done = poll(ctx)
	cancel()
	if got := <-done; got.err == nil {
		t.Errorf("a caller that left: %+v", got)
	}
	waitFor(t, func() bool { _, waiting := v.Next(); return !waiting })
}

// waitFor waits until another goroutine has made ok true.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	tick, end := time.NewTicker(time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("it did not come to pass in a minute")
		}
	}
}

func TestAQueueThatIsNotThereHasBothItsNamesInJSON(t *testing.T) {
	r, _, _ := memoryRegion(t)
	req := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/", strings.NewReader(`{"QueueName":"nobody"}`))
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=a/20260101/us-west-2/sqs/aws4_request")
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	req.Header.Set("X-Amz-Target", "AmazonSQS.GetQueueUrl")
	w := httptest.NewRecorder()
	New(r, Options{}).ServeHTTP(w, req)
	if w.Code != 400 || !strings.Contains(w.Body.String(), `"__type":"com.amazonaws.sqs#QueueDoesNotExist"`) ||
		w.Header().Get("X-Amzn-Query-Error") != "AWS.SimpleQueueService.NonExistentQueue;Sender" {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
}

func TestABatchDeletesWhatItCanAndNamesTheRest(t *testing.T) {
	r, _, config := memoryRegion(t)
	client := sqs.NewFromConfig(config)
	url := must[*sqs.GetQueueUrlOutput](t)(client.GetQueueUrl(t.Context(),
		&sqs.GetQueueUrlInput{QueueName: aws.String("prod")})).QueueUrl
	must[string](t)(r.SendMessage("prod", "hello"))
	got := must[[]region.Message](t)(r.ReceiveMessage("prod", 1, time.Minute))
	out := must[*sqs.DeleteMessageBatchOutput](t)(client.DeleteMessageBatch(t.Context(),
		&sqs.DeleteMessageBatchInput{QueueUrl: url, Entries: []sqstypes.DeleteMessageBatchRequestEntry{
			{Id: aws.String("good"), ReceiptHandle: aws.String(got[0].Receipt)},
			{Id: aws.String("bad"), ReceiptHandle: aws.String("")},
		}}))
	if len(out.Successful) != 1 || *out.Successful[0].Id != "good" || len(out.Failed) != 1 || *out.Failed[0].Id != "bad" {
		t.Errorf("batch: %+v, failed %+v", out.Successful, out.Failed)
	}
	if n := must[int](t)(r.Queue("prod")); n != 0 {
		t.Errorf("%d messages left", n)
	}
	_, err := client.DeleteMessageBatch(t.Context(),
		&sqs.DeleteMessageBatchInput{QueueUrl: url, Entries: []sqstypes.DeleteMessageBatchRequestEntry{}})
	wantCode(t, err, "AWS.SimpleQueueService.EmptyBatchRequest")
}

// Bottlerocket's image for each kind of hardware has a FIPS variant of its own.
func TestFIPSImagesHaveTheirOwnParameters(t *testing.T) {
	_, _, config := memoryRegion(t)
	images := map[string]bool{}
	for _, variant := range []string{"", "-nvidia", "-fips", "-nvidia-fips"} {
		for _, arch := range []string{"x86_64", "arm64"} {
			name := "/aws/service/bottlerocket/aws-k8s-1.36" + variant + "/" + arch + "/latest/image_id"
			images[*must[*ssm.GetParameterOutput](t)(ssm.NewFromConfig(config).GetParameter(t.Context(),
				&ssm.GetParameterInput{Name: &name})).Parameter.Value] = true
		}
	}
	if len(images) != 8 {
		t.Errorf("%d images, want 8", len(images))
	}
}
