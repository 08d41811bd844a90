package apply

import (
	"slices"
	"strings"

	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// reserved returns the annotation that names the owners of a launch's placeholders; nil if the launch is for other
// pods, too.
func reserved(placeholders map[model.PodKey]bool, l *model.Launch) map[string]string {
	owners := []string{}
	for _, p := range l.Pods {
		if !placeholders[p] {
			return nil
		}
		owner := cluster.PlaceholderOwner(p).String()
		if !slices.Contains(owners, owner) {
			owners = append(owners, owner)
		}
	}
	return map[string]string{translate.AnnotationReserves: strings.Join(owners, ",")}
}
