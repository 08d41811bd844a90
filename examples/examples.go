// Package examples embeds the manifests a newcomer applies; `nodeless up` uses the same files.
package examples

import "embed"

// FS holds every manifest of this folder by its file name.
//
//go:embed *.yaml
var FS embed.FS
