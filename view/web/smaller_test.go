package web

import (
	"compress/gzip"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
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

// mostFirstVisit is how many bytes a first visit to the page of a hundred nodes may take: two seconds at a megabit.
const mostFirstVisit = 250 << 10

// What a browser receives before it shows a hundred nodes is small, even after the cluster has changed for hours.
func TestAFirstVisitIsSmall(t *testing.T) {
	needBrowser(t) // the page is built
	s := open(t, 100, 30)
	s.step(func() {})
	changes, chance, at := s.model.Journal().Take(), rand.New(rand.NewPCG(1, 2)), s.clock.Now()
	changes.Set = nil
	for range usual.frames {
		at = at.Add(time.Duration(chance.IntN(20_000)) * time.Millisecond)
		changes.Totals.Rows, changes.Totals.Price = 90+chance.IntN(20), 10_000_000+chance.Int64N(10_000_000)
		changes.Totals.Bound, changes.Totals.Waiting = 3000-chance.IntN(200), chance.IntN(200)
		if err := s.history.add(&changes, at); err != nil {
			t.Fatal(err)
		}
	}
	index, text := s.received("/", "")
	parts := map[string]int{"/": index}
	for _, link := range regexp.MustCompile(`(?:src|href)="/?([^"]+\.(?:js|css|svg))"`).FindAllStringSubmatch(text, -1) {
		parts[link[1]], _ = s.received("/"+link[1], "")
	}
	parts["history"], _ = s.received("/api/history", "")
	parts["state"], _ = s.received("/api/stream", "\n\n")
	sum := 0
	for _, n := range parts {
		sum += n
	}
	if len(parts) < 5 || sum > mostFirstVisit {
		t.Errorf("a first visit takes %d bytes, at most %d are wanted: %v", sum, mostFirstVisit, parts)
	}
}

// received returns the size of an answer as it is sent to a browser, up to the text until if that is not "", and the
// answer itself.
func (s *site) received(path, until string) (int, string) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.http.URL+path, nil)
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip") // so that the client does not unpack it
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer answer.Body.Close()
	var sent counter
	body := io.TeeReader(answer.Body, &sent)
	if answer.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(body); err != nil {
			s.Fatal(err)
		}
	}
	var text strings.Builder
	for part := make([]byte, 32<<10); until == "" || !strings.Contains(text.String(), until); {
		n, err := body.Read(part)
		text.Write(part[:n])
		if err == io.EOF {
			break
		} else if err != nil {
			s.Fatal(err)
		}
	}
	return int(sent), text.String()
}

// A long timeline keeps its ends and every peak, in order; a short one keeps everything.
func TestATimelineKeepsItsPeaks(t *testing.T) {
	all := make([]point, 20_000)
	for i := range all {
		all[i] = point{int64(i + 1), int64(i) * 250, 100, 5, 3000, 0}
	}
	all[7777][2], all[7790][5], all[19_990][3], all[1][4] = 300, 900, 1, 2999
	got := thinned(all)
	if len(got) > mostPoints || got[0] != all[0] || got[len(got)-1] != all[len(all)-1] {
		t.Errorf("%d points from %v to %v", len(got), got[0], got[len(got)-1])
	}
	for _, i := range []int{1, 7777, 7790, 19_990} {
		if !slices.Contains(got, all[i]) {
			t.Errorf("the peak %v is lost", all[i])
		}
	}
	if !slices.IsSortedFunc(got, func(a, b point) int { return int(a[0] - b[0]) }) {
		t.Error("the points are not in order")
	}
	noisy := slices.Clone(all)
	for i := range noisy {
		for sum := 2; sum < len(point{}); sum++ {
			noisy[i][sum] = int64(i * (31 + 2*sum) % 997)
		}
	}
	if n := len(thinned(noisy)); n > mostPoints || n < mostPoints/2 {
		t.Errorf("%d points of a timeline that always changes", n)
	}
	if few := all[:mostPoints]; len(thinned(few)) != mostPoints {
		t.Error("a short timeline is thinned")
	}
}
