package tui

import (
	"slices"
	"strings"
	"time"

	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/language"
)

// scene is the context in which rows are shown.
type scene struct {
	now       time.Time
	monthly   bool
	unpriced  bool
	resources []string
	language  *language.Language // of sentences; nil = English
}

// column is a column of a table. On a terminal it is at least min, preferably fair and at most max wide; columns of a
// higher rank are left out first if there is no room. A table for programs has all columns, except those that are
// only for -o wide.
type column[R any] struct {
	title         string
	min, fair     int
	max           int // 0 = fair
	rank          int
	right, wide   bool
	sort          string // sort key of this column
	text          func(s *scene, r *R) string
	share         func(r *R) (used, offered int64) // drawn as a bar
	tone          func(r *R) tone
	keepBeginning bool // a name: shortened to what precedes its first dot if there is no room
}

// placed is a column with its width.
type placed[R any] struct {
	column[R]
	width int
}

// place chooses columns for a width, leaving out scrolled columns behind the first.
func place[R any](columns []column[R], w, scrolled int) []placed[R] {
	if n := min(scrolled, len(columns)-1); n > 0 {
		columns = slices.Concat(columns[:1], columns[1+n:])
	}
	byRank := make([]int, len(columns))
	for i := range byRank {
		byRank[i] = i
	}
	slices.SortStableFunc(byRank, func(a, b int) int { return columns[a].rank - columns[b].rank })
	widths := make([]int, len(columns))
	left := w - 1 // the marker of the selected row
	for _, i := range byRank {
		gap := 1
		if i == 0 {
			gap = 0
		}
		if need := columns[i].min + gap; need <= left {
			widths[i], left = columns[i].min, left-need
		}
	}
	grow := func(i, to int) {
		if widths[i] > 0 {
			more := max(0, min(left, to-widths[i]))
			widths[i], left = widths[i]+more, left-more
		}
	}
	for _, i := range byRank {
		grow(i, columns[i].fair)
	}
	for _, i := range slices.Backward(byRank) { // explanations, which come last, benefit most
		grow(i, columns[i].max)
	}
	var out []placed[R]
	for i, c := range columns {
		if widths[i] > 0 {
			out = append(out, placed[R]{c, widths[i]})
		}
	}
	return out
}

// head writes the titles; that of the sort column has an arrow.
func head[R any](p *painter, columns []placed[R], by view.Sort) {
	p.in(bold, func() {
		p.blank(1)
		for i, c := range columns {
			title := c.title
			if c.sort != "" && c.sort == by.Key {
				title += map[bool]string{false: "↑", true: "↓"}[by.Desc]
			}
			if i > 0 {
				p.blank(1)
			}
			p.cell(title, c.width, c.right, plain)
		}
	})
}

// draw writes a row.
func draw[R any](p *painter, s *scene, columns []placed[R], r *R, chosen bool) {
	mark := " "
	if chosen {
		mark = ">"
	}
	p.cell(mark, 1, false, bold)
	for i := range columns {
		c := &columns[i]
		if i > 0 {
			p.blank(1)
		}
		if c.share != nil {
			used, offered := c.share(r)
			p.bar(view.Share(used, offered), offered > 0, c.width)
			continue
		}
		t := plain
		if c.tone != nil {
			t = c.tone(r)
		}
		if chosen && t == plain {
			t = bold
		}
		text := c.text(s, r)
		if c.keepBeginning && width(text) > c.width {
			if before, _, ok := strings.Cut(text, "."); ok && before != "" && width(before) <= c.width {
				text = before
			}
		}
		p.cell(text, c.width, c.right, t)
	}
}

// use returns the column of a resource.
func use[R any](i int, name string, rank int, amounts func(r *R) (requests, allocatable *view.Amounts)) column[R] {
	return column[R]{
		title: strings.ToUpper(name), min: 8, fair: 14, max: 20, rank: rank, sort: name,
		text: func(_ *scene, r *R) string {
			a, b := amounts(r)
			if b[i] <= 0 {
				return view.Amount(name, a[i]) + "/-"
			}
			return view.Amount(name, a[i]) + "/" + view.Amount(name, b[i]) + " " + view.Percent(view.Share(a[i], b[i]))
		},
		share: func(r *R) (int64, int64) {
			a, b := amounts(r)
			return a[i], b[i]
		},
	}
}

// unknown stands for a price that is not known.
const unknown = "unknown"

// price formats a price that may not be known.
func (s *scene) price(micros int64, known bool) string {
	if !known {
		return s.language.Say(unknown)
	}
	return s.dollars(micros)
}

// dollars formats a price per hour or, if monthly is set, per month.
func (s *scene) dollars(micros int64) string {
	if s.monthly {
		return view.PerMonth(micros)
	}
	return view.PerHour(micros)
}

// rate formats a price that may not be known with its unit, for a sentence.
func (s *scene) rate(micros int64, known bool) string {
	if !known || s.unpriced {
		return "price not known"
	}
	return s.dollars(micros) + map[bool]string{false: "/h", true: "/month"}[s.monthly]
}

// priceColumn returns the column of prices, or none if no price is known.
func priceColumn[R any](s *scene, known bool, least, rank int, sort string, text func(s *scene, r *R) string,
) []column[R] {
	if s.unpriced || !known {
		return nil
	}
	return []column[R]{{title: s.priceTitle(), min: least, rank: rank, right: true, sort: sort, text: text}}
}

func (s *scene) priceTitle() string {
	if s.monthly {
		return "$/MONTH"
	}
	return "$/H"
}
