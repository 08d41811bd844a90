package migrate

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const notRendered = "it is a template; render it first: helm template … | nodeless migrate -f -"

// braces begin an action of a template.
const braces = "{{"

// unparsed says what is wrong with a text that is no YAML: a template seldom is.
func unparsed(text []byte, err error) error {
	at := bytes.Index(text, []byte(braces))
	if at < 0 {
		return err
	}
	return fmt.Errorf("line %d: %s", 1+bytes.Count(text[:at], []byte("\n")), notRendered)
}

// template returns the path of a text that a template leaves to be filled in; "" if there is none. Objects of kinds
// that are not read may have braces, such as those of Prometheus.
func (d *document) template() string {
	group, _ := d.group()
	if settingReader(d) == nil && readers[group+"/"+d.kind()] == nil && group != "nodeless.sh" &&
		!slices.Contains(workloads, d.kind()) {
		return ""
	}
	return templateIn(d.object, "")
}

func templateIn(v any, path string) string {
	switch v := v.(type) {
	case string:
		if strings.Contains(v, braces) {
			return path
		}
	case []any:
		for i := range v {
			if at := templateIn(v[i], fmt.Sprintf("%s[%d]", path, i)); at != "" {
				return at
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			at := join(path, key)
			if strings.Contains(key, braces) {
				return at
			}
			if ownBraces(key) {
				continue
			}
			if at := templateIn(v[key], at); at != "" {
				return at
			}
		}
	}
	return ""
}

// ownBraces reports whether texts below a field may have braces of their own: scripts and files of nodes, commands, and
// annotations, which may hold templates for others.
func ownBraces(key string) bool {
	switch key {
	case "userData", "UserData", "additionalUserData", "hooks", "fileAssets", "command", "args", "annotations":
		return true
	}
	return strings.Contains(strings.ToLower(key), "bootstrapcommand")
}
