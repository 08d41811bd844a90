package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authz "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

// tenancy is an API server where a user may list the pods of some namespaces.
type tenancy struct {
	user    string
	allowed map[string]bool
}

func (s *tenancy) RoundTrip(r *http.Request) (*http.Response, error) {
	body := fmt.Sprintf(`{"status":{"authenticated":true,"user":{"username":%q}}}`, s.user)
	if strings.HasSuffix(r.URL.Path, "/subjectaccessreviews") {
		var review authz.SubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			return nil, err
		}
		body = fmt.Sprintf(`{"status":{"allowed":%t}}`, s.allowed[review.Spec.ResourceAttributes.Namespace])
	}
	return &http.Response{
		StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

// There are more namespaces than can be checked at once: they are checked in turn, so that nobody stays locked out.
func TestWhoMayListPodsOfALateNamespaceIsLetIn(t *testing.T) {
	var all []string
	for i := range 2*mostNamespaces + 500 {
		all = append(all, fmt.Sprintf("ns-%04d", i))
	}
	late := all[len(all)-1]
	var scattered []string
	for i := range 300 {
		scattered = append(scattered, all[8*i])
	}
	for name, x := range map[string]struct {
		user    string
		allowed []string
		refused int // answers before they are let in
		turns   int // answers until they see all that they may
	}{
		"the last namespace":      {"ann", []string{late}, 2, 3},
		"a service account's own": {"system:serviceaccount:" + late + ":ann", []string{late}, 0, 1},
		"many, scattered":         {"ann", scattered, 0, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			api := &tenancy{x.user, map[string]bool{}}
			for _, n := range x.allowed {
				api.allowed[n] = true
			}
			c := clock.NewVirtual(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
			r, err := New(&rest.Config{
				Host: "http://api", Transport: api, ContentConfig: rest.ContentConfig{ContentType: "application/json"},
			}, c, func() []string { return all }, nil)
			if err != nil {
				t.Fatal(err)
			}
			look := func() (*Rights, error) {
				c.Advance(Remember)
				return r.Review(t.Context(), "token")
			}
			for range x.refused {
				if _, err := look(); !errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), "try again in 30s") {
					t.Fatalf("%s: refused with %v", name, err)
				}
			}
			var rights *Rights
			for range x.turns - x.refused {
				if rights, err = look(); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			if !slices.Equal(rights.Allow.Namespaces, x.allowed) {
				t.Errorf("%s: they see %d namespaces of %d", name, len(rights.Allow.Namespaces), len(x.allowed))
			}
			if rights, err = look(); err != nil || !slices.Equal(rights.Allow.Namespaces, x.allowed) {
				t.Errorf("%s: later they do not see what they may any more: %v", name, err)
			}
			if name == "many, scattered" && rights.Unasked > 0 {
				t.Errorf("%d namespaces are still not checked", rights.Unasked)
			}
			delete(api.allowed, x.allowed[0])
			if rights, err = look(); err == nil && slices.Contains(rights.Allow.Namespaces, x.allowed[0]) {
				t.Errorf("%s: they see a namespace whose pods they may not list any more", name)
			}
		})
	}
}
