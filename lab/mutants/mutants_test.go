package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const root = "../.."

// A change of code that a mutant replaces fails here, without running any mutant.
func TestEachMutantCanBePlanted(t *testing.T) {
	ms, err := readLists()
	if err != nil {
		t.Fatal(err)
	}
	if len(ms) < 100 {
		t.Errorf("%d mutants; the list is to have 100 at least", len(ms))
	}
	names := map[string][]string{}
	for _, m := range ms {
		if _, _, err := m.plant(root); err != nil {
			t.Error(err)
		}
		for _, x := range m.tests {
			if names[x.pkg] == nil {
				names[x.pkg] = testNames(t, filepath.Join(root, x.pkg))
			}
			run, _, _ := strings.Cut(x.run, "/")
			if !slices.ContainsFunc(names[x.pkg], regexp.MustCompile(run).MatchString) {
				t.Errorf("%s: mutant %q: no test of %s matches %q", m.at, m.name, x.pkg, run)
			}
		}
	}
}

func testNames(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
			out = append(out, string(m[1]))
		}
	}
	return out
}

func TestEachMutantHasItsTenth(t *testing.T) {
	all, err := readLists()
	if err != nil {
		t.Fatal(err)
	}
	day := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	planted := map[string]int{}
	for i := range 10 {
		ms, err := choose(all, "today", "", day.AddDate(0, 0, i))
		if err != nil {
			t.Fatal(err)
		}
		if len(ms) < len(all)/10 || len(ms) > len(all)/10+1 {
			t.Errorf("day %d: %d of %d mutants", i, len(ms), len(all))
		}
		for _, m := range ms {
			planted[m.name]++
		}
	}
	for _, m := range all {
		if planted[m.name] != 1 {
			t.Errorf("%q is planted %d times in ten days", m.name, planted[m.name])
		}
	}
	for _, wrong := range []string{"0", "11", "tomorrow"} {
		if _, err := choose(all, wrong, "", day); err == nil {
			t.Errorf("there is no tenth %s", wrong)
		}
	}
}

// The module of this test has one package: a discount, which its test checks, and a loop that ends.
const (
	discounts = `package shop

func Discount(price int) int {
	if price >= 100 {
		return 10
	}
	for i := 0; i < price; i++ {
	}
	return 0
}

var _ = 1
`
	discountTest = `package shop

import "testing"

func TestDiscount(t *testing.T) {
	if Discount(100) != 10 || Discount(5) != 0 {
		t.Error("wrong")
	}
}
`
	shopList = `
# A comment.
mutant the limit is not included
file   shop/shop.go
test   shop Discount
-      price >= 100
+      price > 100

mutant the discount stays below the limit
file   shop/shop.go
test   shop
-      if price >= 100 {
-      return 10
+      if price >= 90 {
+      return 10

mutant the loop never ends
file   shop/shop.go
test   shop
-      i++
+      i--

mutant the price is no number
file   shop/shop.go
test   shop
-      price >= 100
+      price >= "100"

mutant no price is compared twice
file   shop/shop.go
test   shop
-      i
+      price

mutant the discount is lost
file   shop/shop.go
test   shop
-      return 10
+      panic("no discount")
`
)

func TestVerdicts(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module example.com/shop\n\ngo 1.24\n")
	write(t, filepath.Join(dir, "shop/shop.go"), discounts)
	write(t, filepath.Join(dir, "shop/shop_test.go"), discountTest)
	ms, err := parse("shop.txt", shopList)
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{root: dir, limit: 30 * time.Second}
	if err := r.sound(t.Context(), ms); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	failed := r.all(t.Context(), ms, &out)
	seconds := regexp.MustCompile(`\d+\.\ds`)
	want := `killed    the limit is not included: shop TestDiscount, N
SURVIVED  the discount stays below the limit (shop.txt:9): shop/shop.go:4, N
          - if price >= 100 {
          - return 10
          + if price >= 90 {
          + return 10
          passed: shop
killed    the loop never ends: shop timed out, N
error     the price is no number
error     no price is compared twice
killed    the discount is lost: shop TestDiscount, N
`
	if got := seconds.ReplaceAllString(out.String(), "N"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if failed == nil {
		t.Fatal("one survived and two could not be tried, and that is no error")
	}
	for _, part := range []string{
		"1 of 6 survived", `mutant "the price is no number": shop does not compile`, "mismatched types",
		`"no price is compared twice"`, "times in shop/shop.go, not once",
	} {
		if !strings.Contains(failed.Error(), part) {
			t.Errorf("the error does not say %q:\n%v", part, failed)
		}
	}

	write(t, filepath.Join(dir, "shop/shop.go"), strings.Replace(discounts, "return 10", "return 11", 1))
	if err := r.sound(t.Context(), ms); err == nil ||
		!strings.Contains(err.Error(), "fails without any mutant: TestDiscount") {
		t.Errorf("the tests fail by themselves, and the error is %v", err)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestListsAreReadStrictly(t *testing.T) {
	whole := "mutant a\nfile f.go\ntest p TestX\n- x\n+ y\n"
	for text, want := range map[string]string{
		"file f.go\n" + whole:                   "list.txt:1: a block begins with a line mutant",
		whole + whole:                           "list.txt:6: a block begins with a line mutant",
		"mutant a\ntest p\n- x\n":               `mutant "a" needs`,
		"mutant a\nfile f.go\n- x\n":            `mutant "a" needs`,
		"mutant a\nfile f.go\ntest p\n+ x\n":    `mutant "a" needs`,
		strings.Replace(whole, "+", "*", 1):     "list.txt:5: want mutant, file, test, - or +",
		strings.Replace(whole, "TestX", "(", 1): "missing closing )",
	} {
		if _, err := parse("list.txt", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: want an error with %q, got %v", text, want, err)
		}
	}
}
