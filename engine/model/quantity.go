package model

import (
	"fmt"
	"strconv"
	"strings"
)

// Quantity formats an amount of a resource for people: cpu in cores or millicores, bytes in Gi or Mi, everything else
// as a number.
func Quantity(resource string, amount int64) string {
	switch {
	case resource == "cpu":
		if amount%1000 == 0 {
			return strconv.FormatInt(amount/1000, 10)
		}
		return strconv.FormatInt(amount, 10) + "m"
	case resource == "memory", resource == "ephemeral-storage", strings.HasPrefix(resource, "hugepages-"):
		return bytes(amount)
	}
	return strconv.FormatInt(amount, 10)
}

// bytes keeps one decimal of amounts that are not whole, and uses the smaller unit below ten.
func bytes(n int64) string {
	const ki, mi, gi, ti = int64(1) << 10, int64(1) << 20, int64(1) << 30, int64(1) << 40
	switch {
	case n%ti == 0 && n != 0:
		return fmt.Sprintf("%dTi", n/ti)
	case n%gi == 0 && n != 0:
		return fmt.Sprintf("%dGi", n/gi)
	case n >= 10*gi:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/float64(gi)), ".0") + "Gi"
	case n%mi == 0 && n != 0:
		return fmt.Sprintf("%dMi", n/mi)
	case n >= 10*mi:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/float64(mi)), ".0") + "Mi"
	case n%ki == 0 && n != 0:
		return fmt.Sprintf("%dKi", n/ki)
	}
	return strconv.FormatInt(n, 10)
}

// Amounts formats the nonzero amounts, such as "cpu 2, memory 4Gi", in the order of names.
func (r Resources) Amounts(names []string) string {
	var parts []string
	for i, n := range r {
		if n == 0 {
			continue
		}
		name := ResourceName(names, i)
		parts = append(parts, name+" "+Quantity(name, n))
	}
	return strings.Join(parts, ", ")
}

// ResourceName returns the name of a resource index; those beyond the snapshot's names are numbered.
func ResourceName(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("resource-%d", i)
}
