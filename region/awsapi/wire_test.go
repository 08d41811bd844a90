package awsapi

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
)

func TestListsAreReadInTheOrderOfTheirNumbers(t *testing.T) {
	p := newParameters(url.Values{
		"A.10.Name": {"ten"}, "A.2.Name": {"two"}, "A.1.Name": {"one"}, "A.x.Name": {"no"},
		"B.member.1": {"m"}, "N": {"many"},
	})
	var read struct {
		A []struct{ Name string }
		B []string
	}
	if err := p.decode(reflect.ValueOf(&read).Elem()); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, item := range read.A {
		names = append(names, item.Name)
	}
	if !slices.Equal(names, []string{"one", "two", "ten"}) {
		t.Errorf("read %v", names)
	}
	if !slices.Equal(read.B, []string{"m"}) {
		t.Errorf("member list read as %v", read.B)
	}
	if p.decode(reflect.ValueOf(&struct{ N *int32 }{}).Elem()) == nil {
		t.Error("a word was taken for a number")
	}
}

func TestPagesNeitherRepeatNorHideWhatStays(t *testing.T) {
	list := []string{"d", "b", "a", "e", "c"}
	self := func(s string) string { return s }
	first, token, err := page(list, aws.Int32(2), 100, nil, self)
	if err != nil || !slices.Equal(first, []string{"a", "b"}) {
		t.Fatalf("first page %v, %v", first, err)
	}
	list = slices.DeleteFunc(list, func(s string) bool { return s == "b" })
	rest, token, err := page(append(list, "aa"), aws.Int32(10), 100, token, self)
	if err != nil || token != nil || !slices.Equal(rest, []string{"c", "d", "e"}) {
		t.Errorf("after b went: %v, token %v, %v", rest, token, err)
	}
	if _, _, err := page(list, nil, 10, aws.String("garbage"), self); err == nil {
		t.Error("a made-up token was taken")
	}
}

func TestOnlyLoopbackGetsIn(t *testing.T) {
	inside := guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for i, c := range []struct {
		host, origin string
		want         int
		site         string
	}{
		{"127.0.0.1:4566", "", 200, ""},
		{"localhost", "", 200, ""},
		{"[::1]:80", "", 200, ""},
		{"sqs.localhost:80", "", 200, ""},
		{"rebound.example.com", "", 403, ""},
		{"10.0.0.1:80", "", 403, ""},
		{"", "", 403, ""},
		{"localhost.example.com", "", 403, ""},
		{"127.0.0.1:4566", "http://localhost:3000", 200, ""},
		{"127.0.0.1:4566", "https://example.com", 403, ""},
		{"127.0.0.1:4566", "null", 403, ""},
		{"127.0.0.1:4566", "", 403, "cross-site"},
		{"127.0.0.1:4566", "", 403, "same-site"},
		{"127.0.0.1:4566", "", 200, "same-origin"},
		{"127.0.0.1:4566", "", 200, "none"},
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			req := httptest.NewRequest(http.MethodGet, "/", nil)
			req.Host = c.host
			req.Header.Set("Sec-Fetch-Site", c.site)
			if c.origin != "" {
				req.Header.Set("Origin", c.origin)
			}
			w := httptest.NewRecorder()
			inside.ServeHTTP(w, req)
			if w.Code != c.want {
				t.Errorf("host %q, origin %q, site %q: %d", c.host, c.origin, c.site, w.Code)
			}
		})
	}
}
