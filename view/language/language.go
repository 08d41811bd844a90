// Package language translates the texts that Nodeless shows to people. Texts are written in English where they are
// made, and are recorded and sent in English; a catalogue holds a translation for each into another language.
// view/web/page/src/language.ts reads the same catalogue by the same rules.
package language

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Korean is the Korean catalogue as JSON: English forms and their translations. A gap {0} stands for a part that
// varies, such as a name or a number. It is copied, or translated in turn where the translation has {say 0}; {n} is a
// number. "(s)" stands for singular and plural.
//
//go:embed ko.json
var Korean []byte

// Language translates into one language; a nil Language leaves texts in English. It is safe for concurrent use.
type Language struct {
	whole map[string]string
	forms []form // with gaps, in the order in which they are tried

	mu   sync.Mutex
	said map[string]string
}

// form is a text with gaps, and its translation.
type form struct {
	parts []string // the text between the gaps
	gaps  []string // names of the gaps between parts
	to    string

	letters int  // number of letters in the parts
	marked  bool // distinguished by punctuation in the parts
}

// mostSaid is how many translations are cached, and longest how many bytes a text may have to be translated: longer
// texts come from others, who could keep everyone waiting with them.
const mostSaid, longest = 10_000, 4096

// ForLocale returns the language of a locale such as ko_KR.UTF-8: of the first of LC_ALL, LC_MESSAGES and LANG that
// is set (POSIX, 8.2). It is nil for English, and for languages without a catalogue.
func ForLocale(getenv func(string) string) *Language {
	locale := cmp.Or(getenv("LC_ALL"), getenv("LC_MESSAGES"), getenv("LANG"))
	tag, _, _ := strings.Cut(strings.ToLower(locale), ".")
	if tag == "ko" || strings.HasPrefix(tag, "ko_") {
		return korean()
	}
	return nil
}

var korean = sync.OnceValue(func() *Language {
	l, err := parse(Korean)
	if err != nil {
		panic(err) // it is embedded, and a test parses it
	}
	return l
})

// parse reads a catalogue.
func parse(catalogue []byte) (*Language, error) {
	var entries map[string]string
	if err := json.Unmarshal(catalogue, &entries); err != nil {
		return nil, fmt.Errorf("read the catalogue: %w", err)
	}
	l := &Language{whole: map[string]string{}, said: map[string]string{}}
	for key, to := range entries {
		for _, from := range slices.Compact([]string{
			strings.ReplaceAll(key, "(s)", ""), strings.ReplaceAll(key, "(s)", "s"),
		}) {
			if !strings.Contains(from, "{") {
				l.whole[from] = to
				continue
			}
			f := form{to: to}
			for rest := from; ; {
				part, gap, found := strings.Cut(rest, "{")
				f.parts = append(f.parts, part)
				if !found {
					break
				}
				name, after, closed := strings.Cut(gap, "}")
				if !closed {
					return nil, fmt.Errorf("read the catalogue: %q has a gap without an end", key)
				}
				f.gaps, rest = append(f.gaps, name), after
			}
			all := strings.Join(f.parts, "")
			f.letters, f.marked = len(all), strings.ContainsAny(all, ":(")
			l.forms = append(l.forms, f)
		}
	}
	slices.SortFunc(l.forms, func(a, b form) int {
		return cmp.Or(cmp.Compare(b.rank(), a.rank()), slices.Compare(a.parts, b.parts))
	})
	return l, nil
}

// rank orders forms: one that begins with several words is tried before one that begins with a gap, which could hold
// them.
func (f *form) rank() int {
	if f.letters >= fewLetters && f.parts[0] != "" {
		return 1000 + f.letters
	}
	return f.letters
}

// separators join the parts of a text, which are translated separately. The first ofSentences of them join sentences.
var separators = []string{"; ", " · ", " — ", ": ", ". ", " → ", ", "}

const ofSentences = 3

// Say translates a text. What the catalogue does not have stays in English.
func (l *Language) Say(text string) string {
	if l == nil || text == "" || len(text) > longest {
		return text
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.said[text]; ok {
		return known
	}
	if len(l.said) >= mostSaid {
		clear(l.said)
	}
	to := l.translate(text)
	l.said[text] = to
	return to
}

func (l *Language) translate(text string) string {
	if to, ok := l.whole[text]; ok {
		return to
	}
	for i := range l.forms {
		if filled, ok := l.forms[i].match(text); ok {
			return l.fill(&l.forms[i], filled)
		}
	}
	for _, separator := range separators {
		pieces := split(text, separator)
		if len(pieces) == 1 {
			continue
		}
		for i, piece := range pieces {
			if strings.Contains(piece, " ") { // a single word may be a name
				pieces[i] = l.translate(piece)
			}
		}
		if to := strings.Join(pieces, separator); to != text {
			return to
		}
	}
	return text
}

// split splits a text at a separator, except within brackets. It splits only at the first ": ".
func split(text, separator string) []string {
	var out []string
	depth, from := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		}
		if depth == 0 && strings.HasPrefix(text[i:], separator) {
			out = append(out, text[from:i])
			from = i + len(separator)
			i = from - 1
			if separator == ": " {
				break
			}
		}
	}
	return append(out, text[from:])
}

// match returns the texts in the gaps of the form, if it matches.
func (f *form) match(text string) (map[string]string, bool) {
	rest, ok := strings.CutPrefix(text, f.parts[0])
	if !ok {
		return nil, false
	}
	filled := map[string]string{}
	for i, gap := range f.gaps {
		next, end := f.parts[i+1], 0
		switch {
		case len(rest) == 0:
		case i+1 < len(f.gaps):
			end = strings.Index(rest[1:], next) + 1
		case strings.HasSuffix(rest, next):
			end = len(rest) - len(next)
		}
		if end == 0 || !f.holds(gap, rest[:end], next) || i == 0 && f.parts[0] == "" && len(split(rest[:end], ": ")) > 1 {
			return nil, false // what precedes a colon is translated first
		}
		filled[gap], rest = rest[:end], rest[end+len(next):]
	}
	return filled, true
}

// A form with fewer than fewLetters letters, such as "{0} of {1}", could be part of any sentence. A gap of it that is
// translated holds at most fewWords words, unless punctuation distinguishes the form.
const fewLetters, fewWords = 10, 4

// holds reports whether a text can fill a gap before the next part of the form. The text must not span sentences; in
// a form of few letters, a text that is copied, such as a name or a number, must be one word.
func (f *form) holds(gap, text, next string) bool {
	switch {
	case gap == "n":
		return strings.Trim(text, "0123456789,") == ""
	case strings.HasPrefix(next, ")") && strings.Contains(text, ")"):
		return false
	case slices.ContainsFunc(separators[:ofSentences], func(s string) bool { return len(split(text, s)) > 1 }):
		return false
	case f.letters >= fewLetters:
		return true
	case strings.Contains(f.to, "{say "+gap+"}"):
		return f.marked || strings.Count(text, " ") < fewWords
	}
	return !strings.Contains(text, " ")
}

// fill inserts the texts of the gaps into the translation.
func (l *Language) fill(f *form, filled map[string]string) string {
	var pairs []string
	for gap, text := range filled {
		pairs = append(pairs, "{"+gap+"}", text)
		if say := "{say " + gap + "}"; strings.Contains(f.to, say) {
			pairs = append(pairs, say, l.translate(text))
		}
	}
	return strings.NewReplacer(pairs...).Replace(f.to)
}
