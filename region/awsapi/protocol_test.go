package awsapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/smithy-go"
)

// refused returns the code of an error that the client could parse, whose message must name the action.
func refused(t *testing.T, err error, action string) string {
	t.Helper()
	var e smithy.APIError
	if !errors.As(err, &e) {
		t.Fatalf("the client could not read the answer: %v", err)
	}
	if !strings.Contains(e.ErrorMessage(), action) {
		t.Errorf("the refusal does not name %s: %s", action, e.ErrorMessage())
	}
	return e.ErrorCode()
}

func TestAnActionThatIsNotServedIsRefusedByNameInTheProtocolOfItsService(t *testing.T) {
	_, _, config := memoryRegion(t)
	_, err := ec2.NewFromConfig(config).DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{})
	if code := refused(t, err, "DescribeVolumes of ec2"); code != "InvalidAction" {
		t.Errorf("EC2 says %s", code)
	}
	cluster := "prod"
	_, err = eks.NewFromConfig(config).ListUpdates(t.Context(), &eks.ListUpdatesInput{Name: &cluster})
	if code := refused(t, err, "ListUpdates of eks"); code != "UnknownOperationException" {
		t.Errorf("EKS says %s", code)
	}
}

// Clients of services that the region does not serve are not among our dependencies, so the requests are written out.
func TestAServiceThatIsNotServedAnswersInItsProtocol(t *testing.T) {
	const query = "application/x-www-form-urlencoded; charset=utf-8"
	at := serve(t)
	for _, c := range []struct {
		service, method, path, contentType, target, body string
		wantType, want                                   string
	}{
		{
			"logs", "POST", "/", "application/x-amz-json-1.1", "Logs_20140328.StartLiveTail", "{}",
			"application/x-amz-json-1.1", `"message":"The simulated region does not serve StartLiveTail of logs"`,
		},
		{
			"events", "POST", "/", "application/x-amz-json-1.1", "AWSEvents.ListRules", "{}",
			"application/json", `"message":"The simulated region does not serve ListRules of events"`,
		},
		{
			"cloudformation", "POST", "/", query, "", "Action=ListStacks&Version=2010-05-15",
			"text/xml", "<ErrorResponse xmlns=\"http://cloudformation.amazonaws.com/doc/\"><Error><Type>Sender</Type>" +
				"<Code>InvalidAction</Code><Message>The simulated region does not serve ListStacks of cloudformation</Message></Error>",
		},
		{
			"s3", "GET", "/bucket", "", "", "", "text/xml",
			"<Error><Code>NotImplemented</Code><Message>The simulated region does not serve GET /bucket of s3</Message>",
		},
		{"lambda", "GET", "/2015-03-31/functions/", "", "", "", "application/json", "GET /2015-03-31/functions/ of lambda"},
	} {
		status, header, body := send(t, at+c.path, c.method, c.body, map[string]string{
			"Authorization": "AWS4-HMAC-SHA256 Credential=AKID/20260105/us-west-2/" + c.service +
				"/aws4_request, SignedHeaders=host, Signature=0",
			"Content-Type": c.contentType, "X-Amz-Target": c.target,
		})
		if status < 400 || !strings.HasPrefix(header.Get("Content-Type"), c.wantType) || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %s %s\nwant %s", c.service, status, header.Get("Content-Type"), body, c.want)
		}
	}
	status, header, body := send(t, at+"/service/GraniteServiceVersion20100801/operation/ListMetrics", "POST", "\xa0",
		map[string]string{
			"Authorization":   "AWS4-HMAC-SHA256 Credential=AKID/20260105/us-west-2/monitoring/aws4_request, SignedHeaders=host, Signature=0",
			"Smithy-Protocol": "rpc-v2-cbor", "Content-Type": "application/cbor",
		})
	const message = "The simulated region does not serve ListMetrics of monitoring"
	want := "\xa2\x7a\x00\x00\x00\x06__type\x7a\x00\x00\x00\x19UnknownOperationException\x7a\x00\x00\x00\x07message\x7a\x00\x00\x00" + string(rune(len(message))) + message
	if status != 400 || header.Get("Smithy-Protocol") != "rpc-v2-cbor" ||
		header.Get("Content-Type") != "application/cbor" || body != want {
		t.Errorf("monitoring: %d %v %q\nwant %q", status, header, body, want)
	}
}

func TestATooLargeRequestIsRefusedInItsProtocol(t *testing.T) {
	status, header, body := send(t, serve(t), "POST", strings.Repeat(" ", maxBody+1),
		map[string]string{"X-Amz-Target": "AmazonSSM.GetParameter"})
	if status != http.StatusRequestEntityTooLarge || header.Get("Content-Type") != "application/x-amz-json-1.1" ||
		!strings.Contains(body, "larger than 1 MiB") {
		t.Errorf("%d %s %s", status, header.Get("Content-Type"), body)
	}
}

func TestActionsOfEKSHaveTheNamesOfItsReference(t *testing.T) {
	for request, want := range map[string]string{
		"GET /clusters": "ListClusters", "POST /clusters": "CreateCluster", "GET /clusters/a": "DescribeCluster",
		"DELETE /clusters/a":             "DeleteCluster",
		"GET /clusters/a/access-entries": "ListAccessEntries", "GET /clusters/a/addons/b": "DescribeAddon",
		"POST /clusters/a/fargate-profiles": "CreateFargateProfile", "GET /clusters/a/dreams": "", "PATCH /clusters/a": "",
		"GET /tags/arn%3Aaws%3Aeks": "ListTagsForResource", "GET /addons/supported-versions": "DescribeAddonVersions",
		"GET /clusters/a/access-entries/arn%3Arole%2Fa/access-policies": "ListAssociatedAccessPolicies",
	} {
		method, path, _ := strings.Cut(request, " ")
		if got, _ := eksRequest(httptest.NewRequest(method, path, nil)); got != want {
			t.Errorf("%s is %q, want %q", request, got, want)
		}
	}
}

// The region keeps what it logs and stores of a request, not the whole body.
func TestTheLogOfCallsDoesNotKeepBodies(t *testing.T) {
	p := newPlace(t)
	const n = 40
	padding := strings.Repeat("x", maxBody-1024)
	authorization := func(service string) string {
		return "AWS4-HMAC-SHA256 Credential=a/20260101/us-west-2/" + service + "/aws4_request"
	}
	image := p.region.Images()[0].ID
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for i := range n {
		status, _, body := send(t, p.url, "POST",
			fmt.Sprintf("Action=RunInstances&Version=2016-11-15&ClientToken=t%d&ImageId=%s&InstanceType=m5.large&MinCount=1"+
				"&MaxCount=1&TagSpecification.1.ResourceType=instance&TagSpecification.1.Tag.1.Key=n"+
				"&TagSpecification.1.Tag.1.Value=v&Unknown=%s", i, image, padding),
			map[string]string{
				"Authorization": authorization("ec2"), "Content-Type": "application/x-www-form-urlencoded; charset=utf-8",
			})
		if status != http.StatusOK {
			t.Fatal(status, body)
		}
		if status, _, body = send(t, p.url, "POST", `{"QueueName":"`+padding+`"}`, map[string]string{
			"Authorization": authorization("sqs"), "X-Amz-Target": "AmazonSQS.GetQueueUrl",
		}); status != http.StatusBadRequest {
			t.Fatal(status, body)
		}
	}
	if grown := heap() - before; grown > n<<19 {
		t.Errorf("%d calls with bodies of 1 MiB left %d MiB", 2*n, grown>>20)
	}
	if made := p.region.Counters(); made["RunInstances"] != n || made["GetQueueUrl"] != n {
		t.Errorf("the calls are logged as %v", made)
	}
}

// send sends a request and reads the response.
func send(t *testing.T, url, method, body string, headers map[string]string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range headers {
		if v != "" {
			req.Header.Set(k, v)
		}
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(text)
}
