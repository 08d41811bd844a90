//go:build noplane

package webpage

import (
	"context"

	"github.com/nodeless/nodeless/view/web"
)

// forecast returns nil: plan is not in this build.
func (*Page) forecast() func(context.Context, web.WhatIf) (any, error) { return nil }
