package main

import (
	"fmt"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

func seconds(d time.Duration) string {
	switch s := d.Seconds(); {
	case s >= 10:
		return fmt.Sprintf("%.1f", s)
	case s >= 1:
		return fmt.Sprintf("%.2f", s)
	default:
		return fmt.Sprintf("%.4f", s)
	}
}

func mib(bytes uint64) string { return fmt.Sprintf("%.1f", float64(bytes)/(1<<20)) }

// above formats by how much the cost exceeds the proven minimum for the same pods.
func above(o *outcome) string { return aboveBound(o.cost, o.bound) }

func aboveBound(cost, bound model.Price) string {
	if bound <= 0 {
		return ""
	}
	return fmt.Sprintf("%.2f %%", 100*(float64(cost)/float64(bound)-1))
}
