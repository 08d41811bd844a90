package web

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/fstest"
)

// Files are compressed for clients that accept it, and sent unchanged to others; missing files are not found.
func TestFilesAreSmallerForWhoCanReadThat(t *testing.T) {
	text := "console.log('the same again and again, the same again and again')"
	files := fstest.MapFS{"main.js": {Data: []byte(text)}, "index.html": {Data: []byte("<p>" + text)}}
	h := smaller(files, http.FileServerFS(files))
	ask := func(path, encoding string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Accept-Encoding", encoding)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for range 2 {
		for path, want := range map[string]string{"/main.js": text, "/": "<p>" + text} {
			w := ask(path, "br, gzip")
			zip, err := gzip.NewReader(w.Body)
			if err != nil || w.Header().Get("Content-Encoding") != "gzip" {
				t.Fatalf("%s: %v, %v", path, err, w.Header())
			}
			if got, _ := io.ReadAll(zip); string(got) != want {
				t.Errorf("%s: %q", path, got)
			}
		}
	}
	if w := ask("/main.js", ""); w.Body.String() != text || w.Header().Get("Content-Encoding") != "" {
		t.Errorf("not compressed: %q", w.Body)
	}
	for _, path := range []string{"/no.js", "/../web.go", "/dir/"} {
		if w := ask(path, "gzip"); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}
