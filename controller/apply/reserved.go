package apply

import (
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// reserved returns whose placeholders a launch is for, as namespace/name separated by commas; "" if it is for other
// pods, too.
func reserved(s *model.Snapshot, l *model.Launch) string {
	placeholders, owners := s.Placeholders(), []string{}
	for _, p := range l.Pods {
		if !placeholders[p] {
			return ""
		}
		owner := p.Namespace + "/" + p.Name[:max(strings.LastIndexByte(p.Name, '-'), 0)]
		if !slices.Contains(owners, owner) {
			owners = append(owners, owner)
		}
	}
	return strings.Join(owners, ",")
}
