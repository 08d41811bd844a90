package awsapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/region"
)

// spotPages reads a spot price history page by page and returns "TYPE/ZONE/PRODUCT/TIME PRICE ZONEID" of each entry.
func spotPages(t testing.TB, r *region.Region, in ec2.DescribeSpotPriceHistoryInput) (out []string) {
	t.Helper()
	for {
		page, err := describeSpotPriceHistory(&call{region: r}, &in)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range page.SpotPriceHistory {
			out = append(out, fmt.Sprintf("%s/%s/%s/%s %s %s", p.InstanceType, *p.AvailabilityZone, p.ProductDescription,
				stamp(*p.Timestamp), *p.SpotPrice, *p.AvailabilityZoneId))
		}
		if in.NextToken = page.NextToken; in.NextToken == nil {
			return out
		}
	}
}

func TestPagesOfSpotPricesAreTheHistoryInOrder(t *testing.T) {
	r := testRegion(t)
	hour := r.Now().Truncate(time.Hour)
	var want []string
	for _, o := range r.Offers() {
		for _, z := range o.Zones {
			for ago := range 3 {
				at := hour.Add(-time.Duration(ago) * time.Hour)
				if price, ok := r.SpotPrice(o.Type.Name, z.Name, at); ok {
					want = append(want, fmt.Sprintf("%s/%s/Linux/UNIX/%s %.6f %s", o.Type.Name, z.Name, stamp(at),
						float64(price)/1e6, z.ID))
				}
			}
		}
	}
	slices.Sort(want)
	in := ec2.DescribeSpotPriceHistoryInput{StartTime: aws.Time(hour.Add(-2 * time.Hour)), MaxResults: aws.Int32(997)}
	if got := spotPages(t, r, in); !slices.Equal(got, want) {
		t.Errorf("%d entries, want %d", len(got), len(want))
	}
	of := func(texts ...string) (some []string) {
		for _, entry := range want {
			if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(entry, text) }) {
				some = append(some, entry)
			}
		}
		return some
	}
	in.MaxResults, in.InstanceTypes = aws.Int32(2), []types.InstanceType{"m5.large", "c5.metal"}
	if got, some := spotPages(t, r, in), slices.Concat(of("c5.metal/"), of("m5.large/")); !slices.Equal(got, some) {
		t.Errorf("of two types: %v, want %v", got, some)
	}
	in.AvailabilityZone, in.InstanceTypes = aws.String("us-west-2b"), nil
	in.Filters = []types.Filter{{Name: aws.String("instance-type"), Values: []string{"m5.*"}}}
	if got, some := spotPages(t, r, in), of("/us-west-2b/", "m5."); !slices.Equal(got, some) || len(some) < 3 {
		t.Errorf("by filter: %v, want %v", got, some)
	}
	in.ProductDescriptions = []string{"Windows"}
	if got := spotPages(t, r, in); got != nil {
		t.Errorf("of Windows: %v", got)
	}
}

// Six hours of all types in pages of 1,000. 0.08 s and 140,000 allocations on a shared 2-core machine (2026-11-30); 4.4 s
// and 14 million when each page built and sorted the whole history.
func BenchmarkSpotPriceHistory(b *testing.B) {
	v := clock.NewVirtual(time.Date(2026, 11, 5, 9, 0, 0, 0, time.UTC))
	r, err := region.Open(region.Config{Name: "us-west-2", Seed: 1, Clock: v})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	b.ReportAllocs()
	for b.Loop() {
		in := ec2.DescribeSpotPriceHistoryInput{MaxResults: aws.Int32(1000), StartTime: aws.Time(v.Now().Add(-6 * time.Hour))}
		for {
			page, err := describeSpotPriceHistory(&call{region: r}, &in)
			if err != nil {
				b.Fatal(err)
			}
			if in.NextToken = page.NextToken; in.NextToken == nil {
				break
			}
		}
	}
}
