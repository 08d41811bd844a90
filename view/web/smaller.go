package web

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

// smaller serves the files of a folder compressed to clients that accept gzip, compressing each file once. It passes
// all other requests to others.
func smaller(files fs.FS, others http.Handler) http.Handler {
	var made sync.Map
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
		if name == "" {
			name = "index.html"
		}
		kind := mime.TypeByExtension(path.Ext(name))
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") || kind == "" || r.Header.Get("Range") != "" {
			others.ServeHTTP(w, r)
			return
		}
		small, ok := made.Load(name)
		if !ok {
			text, err := fs.ReadFile(files, name)
			if err != nil { // others answer with the error
				others.ServeHTTP(w, r)
				return
			}
			var b bytes.Buffer
			zip, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
			_, _ = zip.Write(text)
			_ = zip.Close() // cannot fail: it writes to memory
			small, _ = made.LoadOrStore(name, b.Bytes())
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Add("Vary", "Accept-Encoding")
		if r.Method != http.MethodHead {
			_, _ = w.Write(small.([]byte))
		}
	})
}
