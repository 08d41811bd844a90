package run

import (
	"net/http"
	"net/http/httptest"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"k8s.io/client-go/rest"
)

// Nodes need the range of the cluster's Services, which no setting has: the API server is asked, else EKS, also where
// --cluster-endpoint is given. Neither has to answer.
func TestTheRangeOfServicesIsFound(t *testing.T) {
	const object = `{"kind":"ServiceCIDR","apiVersion":"networking.k8s.io/v1","spec":{"cidrs":["10.96.0.0/16"]}}`
	const cluster = `{"cluster":{"endpoint":"https://eks","certificateAuthority":{"data":""},` +
		`"kubernetesNetworkConfig":{"serviceIpv4Cidr":"172.20.0.0/16"}}}`
	for _, c := range []struct{ object, cluster, want string }{
		{object, cluster, "10.96.0.0/16"}, {"", cluster, "172.20.0.0/16"}, {object, "", "10.96.0.0/16"}, {"", "", ""},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer := map[string]string{
				"/apis/networking.k8s.io/v1/servicecidrs/kubernetes": c.object, "/clusters/prod": c.cluster,
			}[r.URL.Path]
			w.Header().Set("Content-Type", "application/json")
			if answer == "" {
				w.WriteHeader(http.StatusForbidden)
				answer = "{}"
			}
			_, _ = w.Write([]byte(answer))
		}))
		defer server.Close()
		s, _, err := parsed("--cluster-endpoint", "https://api.example.com", "--cluster-ca-bundle", bundle)
		if err != nil {
			t.Fatal(err)
		}
		o, err := s.provider(t.Context(), awssdk.Config{
			Region: "us-west-2", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
		}, &rest.Config{Host: server.URL})
		if err != nil || o.ServiceCIDR != c.want || o.ClusterEndpoint != "https://api.example.com" {
			t.Errorf("the API server says %q, EKS %q: range %q, endpoint %s, %v; want %s", c.object, c.cluster, o.ServiceCIDR,
				o.ClusterEndpoint, err, c.want)
		}
	}
}
