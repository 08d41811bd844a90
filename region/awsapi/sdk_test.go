package awsapi

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"
	"github.com/aws/smithy-go"
)

// configFor returns an SDK configuration for a server. It repeats only calls whose connection the SDK closed before it
// had read a long response: the SDK counts on its retries for these (aws-sdk-go-v2, issue 2737).
func configFor(url, region string) aws.Config {
	return aws.Config{
		Region: region, BaseEndpoint: aws.String(url),
		Retryer: func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) {
				o.MaxBackoff = time.Nanosecond
				o.Retryables = []retry.IsErrorRetryable{retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
					return aws.BoolTernary(errors.Is(err, net.ErrClosed))
				})}
			})
		},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "any", SecretAccessKey: "any"}, nil
		}),
	}
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	e, ok := errors.AsType[smithy.APIError](err)
	if !ok || e.ErrorCode() != code {
		t.Errorf("got %v, want code %s", err, code)
	}
}

func TestTheSDKFindsTypesByFilterAndPage(t *testing.T) {
	client := ec2.NewFromConfig(configFor(serve(t), "us-west-2"))
	pages := ec2.NewDescribeInstanceTypesPaginator(client,
		&ec2.DescribeInstanceTypesInput{MaxResults: aws.Int32(20), Filters: []ec2types.Filter{
			{Name: aws.String("processor-info.supported-architecture"), Values: []string{"arm64"}},
			{Name: aws.String("vcpu-info.default-vcpus"), Values: []string{"4"}},
			{Name: aws.String("instance-type"), Values: []string{"m*"}},
		}})
	found := map[ec2types.InstanceType]ec2types.InstanceTypeInfo{}
	for pages.HasMorePages() {
		p, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range p.InstanceTypes {
			if _, twice := found[i.InstanceType]; twice {
				t.Errorf("%s came twice", i.InstanceType)
			}
			found[i.InstanceType] = i
		}
	}
	m7g, ok := found["m7g.xlarge"]
	if !ok || *m7g.VCpuInfo.DefaultVCpus != 4 || *m7g.MemoryInfo.SizeInMiB != 16384 ||
		*m7g.NetworkInfo.Ipv4AddressesPerInterface != 15 ||
		m7g.ProcessorInfo.SupportedArchitectures[0] != "arm64" {
		t.Errorf("m7g.xlarge is told as %+v", m7g)
	}
	_, err := client.DescribeInstanceTypes(t.Context(),
		&ec2.DescribeInstanceTypesInput{InstanceTypes: []ec2types.InstanceType{"m5.tiny"}})
	wantCode(t, err, "InvalidInstanceType")
	_, err = client.DescribeInstanceTypes(t.Context(),
		&ec2.DescribeInstanceTypesInput{Filters: []ec2types.Filter{{Name: aws.String("colour"), Values: []string{"red"}}}})
	wantCode(t, err, "InvalidParameterValue")
}

func TestTheSDKSeesWhereTypesAreOffered(t *testing.T) {
	client := ec2.NewFromConfig(configFor(serve(t), "us-west-2"))
	zones, err := client.DescribeAvailabilityZones(t.Context(), &ec2.DescribeAvailabilityZonesInput{})
	if err != nil || len(zones.AvailabilityZones) < 3 {
		t.Fatalf("zones: %v, %v", zones, err)
	}
	offers, err := client.DescribeInstanceTypeOfferings(t.Context(), &ec2.DescribeInstanceTypeOfferingsInput{
		LocationType: "availability-zone",
		Filters:      []ec2types.Filter{{Name: aws.String("instance-type"), Values: []string{"m5.large"}}},
	})
	if err != nil || len(offers.InstanceTypeOfferings) < 2 {
		t.Errorf("offerings of m5.large: %v, %v", offers, err)
	}
	none, err := client.DescribeCapacityReservations(t.Context(), &ec2.DescribeCapacityReservationsInput{})
	if err != nil || len(none.CapacityReservations) != 0 {
		t.Errorf("reservations: %v, %v", none, err)
	}
}

func TestTheSDKReadsThePriceList(t *testing.T) {
	client := pricing.NewFromConfig(configFor(serve(t), "us-east-1")) // Price List is served there for all regions
	out, err := client.GetProducts(t.Context(),
		&pricing.GetProductsInput{ServiceCode: aws.String("AmazonEC2"), Filters: []pricingtypes.Filter{
			{Type: "TERM_MATCH", Field: aws.String("instanceType"), Value: aws.String("m5.large")},
			{Type: "TERM_MATCH", Field: aws.String("regionCode"), Value: aws.String("us-west-2")},
			{Type: "TERM_MATCH", Field: aws.String("productFamily"), Value: aws.String("Compute Instance")},
		}})
	if err != nil || len(out.PriceList) != 1 {
		t.Fatalf("prices of m5.large: %v, %v", out, err)
	}
	var product struct {
		Terms struct {
			OnDemand map[string]struct {
				PriceDimensions map[string]struct{ PricePerUnit map[string]string }
			}
		}
	}
	if err := json.Unmarshal([]byte(out.PriceList[0]), &product); err != nil {
		t.Fatal(err)
	}
	for _, term := range product.Terms.OnDemand {
		for _, d := range term.PriceDimensions {
			if d.PricePerUnit["USD"] != "0.0960000000" {
				t.Errorf("m5.large costs %v, want 0.096", d.PricePerUnit)
			}
		}
	}
}

func TestBadRequestsGetAWSsErrors(t *testing.T) {
	url := serve(t)
	_, err := ec2.NewFromConfig(configFor(url, "mars-1")).DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{})
	wantCode(t, err, "SignatureDoesNotMatch")
	_, err = ec2.NewFromConfig(configFor(url, "us-west-2")).DescribeHosts(t.Context(), &ec2.DescribeHostsInput{})
	wantCode(t, err, "InvalidAction")
	for name, c := range map[string]struct {
		auth, body, code string
		status           int
	}{
		"unsigned":  {"", "Action=DescribeRegions&Version=2016-11-15", "MissingAuthenticationToken", 403},
		"malformed": {"Basic eA==", "Action=DescribeRegions&Version=2016-11-15", "IncompleteSignature", 400},
		"form": {
			"AWS4-HMAC-SHA256 Credential=a/20260101/us-west-2/ec2/aws4_request", "%zz", "MalformedQueryString",
			400,
		},
		"number": {
			"AWS4-HMAC-SHA256 Credential=a/20260101/us-west-2/ec2/aws4_request",
			"Action=DescribeInstanceTypes&MaxResults=many", "InvalidParameterValue", 400,
		},
		"huge": {
			"AWS4-HMAC-SHA256 Credential=a/20260101/us-west-2/ec2/aws4_request", strings.Repeat("a", maxBody+1),
			"RequestEntityTooLarge", 413,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			req := httptest.NewRequest(http.MethodPost, url+"/", strings.NewReader(c.body))
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
			if c.auth != "" {
				req.Header.Set("Authorization", c.auth)
			}
			New(testRegion(t), Options{}).ServeHTTP(w, req)
			if w.Code != c.status || !strings.Contains(w.Body.String(), "<Code>"+c.code+"</Code>") {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
}
