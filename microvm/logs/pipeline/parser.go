package pipeline

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// parser is a section of parsers.conf.
type parser struct {
	re       *regexp.Regexp // nil for JSON
	timeKey  string
	layout   string // a Go layout
	keepTime bool
	types    map[string]string
}

func newParser(s *section) (*parser, error) {
	p := &parser{types: map[string]string{}}
	if s.oneOf("format", "", "json", "regex") == "regex" {
		p.re = s.expression("regex", s.text("regex", ""))
		if p.re != nil && len(p.re.SubexpNames()) < 2 {
			s.fail("Regex names no groups such as (?<log>.*)")
		}
	}
	format := s.text("time_format", "")
	if p.timeKey = s.text("time_key", ""); p.timeKey == "" && format != "" {
		p.timeKey = "time"
	}
	var err error
	if p.layout, err = goLayout(format); err != nil {
		s.fail("Time_Format: %v", err)
	}
	p.keepTime = s.on("time_keep", false)
	for _, pair := range strings.Fields(s.text("types", "")) {
		key, kind, _ := strings.Cut(pair, ":")
		switch kind = strings.ToLower(kind); kind {
		case "integer", "float", "bool", "hex", "string":
			p.types[key] = kind
		default:
			s.fail("Types: %s is none of integer, float, bool, hex, string", kind)
		}
	}
	return p, s.rest()
}

// parse parses a text. It returns false if the text does not match.
func (p *parser) parse(text string) (fields map[string]any, at time.Time, ok bool) {
	if p.re == nil {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if d.Decode(&fields) != nil || fields == nil || d.More() {
			return nil, at, false
		}
	} else {
		groups := p.re.FindStringSubmatch(text)
		if groups == nil {
			return nil, at, false
		}
		fields = map[string]any{}
		for i, name := range p.re.SubexpNames() {
			if name != "" {
				fields[name] = groups[i]
			}
		}
	}
	for key, kind := range p.types {
		if text, ok := fields[key].(string); ok {
			fields[key] = typed(text, kind)
		}
	}
	if text, found := fields[p.timeKey].(string); found && p.layout != "" {
		if t, err := time.Parse(p.layout, text); err == nil {
			if at = t; !p.keepTime {
				delete(fields, p.timeKey)
			}
		}
	}
	return fields, at, true
}

// typed converts a text to a type, or returns it unchanged if it is not of the type.
func typed(text, kind string) any {
	switch kind {
	case "integer":
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	case "hex":
		if n, err := strconv.ParseInt(strings.TrimPrefix(text, "0x"), 16, 64); err == nil {
			return n
		}
	case "float":
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			if _, err := json.Marshal(f); err == nil { // neither infinite nor NaN
				return f
			}
		}
	case "bool":
		if b, err := strconv.ParseBool(strings.ToLower(text)); err == nil {
			return b
		}
	}
	return text
}

// newParserFilter returns the filter parser, which replaces a record with the parsed content of one of its fields.
func newParserFilter(s *section, parsers map[string]*parser) func(*Record) bool {
	key, err := newAccessor(s.text("key_name", ""))
	if err != nil {
		s.fail("Key_Name: %v", err)
	} else if key[0] == "" {
		s.fail("Key_Name is missing")
	}
	var chosen []*parser
	for _, name := range s.all("parser") {
		if parsers[name] == nil {
			s.fail("Parser: there is no [PARSER] with the name %s", name)
		}
		chosen = append(chosen, parsers[name])
	}
	if len(chosen) == 0 {
		s.fail("Parser is missing")
	}
	preserve, reserve := s.on("preserve_key", false), s.on("reserve_data", false)
	return func(r *Record) bool {
		v, ok := key.find(r.Fields)
		text, isText := v.(string)
		if !ok || !isText {
			return true
		}
		for _, p := range chosen {
			fields, at, ok := p.parse(text)
			if !ok {
				continue
			}
			others := map[string]any{}
			if reserve {
				maps.Copy(others, r.Fields)
				key.remove(others)
			}
			if preserve {
				others[key[0]] = r.Fields[key[0]]
			}
			maps.Copy(others, fields)
			r.Fields = others
			if !at.IsZero() {
				r.Time = at
			}
			break
		}
		return true
	}
}

// directives of strftime(3) as Go layouts, without Fluent Bit's %L for fractions of a second.
var directives = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'e': "_2", 'b': "Jan", 'B': "January", 'h': "Jan", 'a': "Mon",
	'A': "Monday", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'Z': "MST", 'z': "-0700", 'j': "002",
	'T': "15:04:05", 'F': "2006-01-02", 'D': "01/02/06", 'R': "15:04", '%': "%",
}

// goLayout converts a format of strptime(3) to a Go layout for parsing. Go parses fractions of a second after a dot or
// comma even if the layout has none.
func goLayout(format string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		if i++; i == len(format) {
			return "", fmt.Errorf("%q ends within a directive", format)
		}
		switch d, ok := directives[format[i]]; {
		case format[i] == 'L' || format[i] == 'N':
			text := strings.TrimSuffix(b.String(), ".")
			if text == b.String() {
				return "", fmt.Errorf("%%%c follows no dot", format[i])
			}
			b.Reset()
			b.WriteString(text)
		case format[i] == 'z':
			b.WriteString("Z0700") // also accepts Z for UTC
		case ok:
			b.WriteString(d)
		default:
			return "", fmt.Errorf("%%%c is not known", format[i])
		}
	}
	return b.String(), nil
}

// goFormat converts a format of strftime(3) to a Go layout for formatting.
func goFormat(format string) (string, error) {
	layout, err := goLayout(strings.ReplaceAll(strings.ReplaceAll(format, ".%L", "."), ".%N", "."))
	if err != nil {
		return "", err
	}
	if strings.Contains(format, ".%L") || strings.Contains(format, ".%N") {
		layout = strings.Replace(layout, "05.", "05.000", 1)
	}
	return strings.ReplaceAll(layout, "Z0700", "-0700"), nil
}
