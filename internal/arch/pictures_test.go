package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mostPicture is how many bytes a picture of the README may have: readers load it before the text below it.
const mostPicture = 2 << 20

// The README's pictures are small, and one is animated: an APNG announces its frames in an acTL chunk.
func TestTheReadmesPicturesAreSmall(t *testing.T) {
	animated := false
	for _, m := range regexp.MustCompile(`!\[[^]]*\]\(([^)]+\.png)\)`).FindAllStringSubmatch(read(t, "README.md"), -1) {
		about, err := os.Stat(filepath.Join("..", "..", m[1]))
		if err != nil {
			t.Fatal(err)
		}
		if about.Size() > mostPicture {
			t.Errorf("%s has %d bytes, at most %d are wanted", m[1], about.Size(), mostPicture)
		}
		animated = animated || strings.Contains(read(t, m[1]), "acTL")
	}
	if !animated {
		t.Error("the README has no animation")
	}
}
