package iam

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// condition is one operator on one key.
type condition struct {
	compare  comparison
	negated  bool // true if no value may match
	null     bool // tests whether the key is absent
	ifExists bool
	set      setOperator
	key      string // lower case
	values   []string
}

// setOperator says how many of a key's values must pass.
type setOperator int

const (
	oneValue setOperator = iota
	forAllValues
	forAnyValue
)

// comparison reports whether a value of the request matches one of the policy.
type comparison func(want glob, got string) bool

// comparisons are the operators without "Not", "IfExists" and set operators.
var comparisons = map[string]comparison{
	"StringEquals":             func(want glob, got string) bool { return want.text() == got },
	"StringEqualsIgnoreCase":   func(want glob, got string) bool { return strings.EqualFold(want.text(), got) },
	"StringLike":               func(want glob, got string) bool { return want.matches(got) },
	"Bool":                     func(want glob, got string) bool { return strings.EqualFold(want.text(), got) },
	"ArnEquals":                likeARN, // same as ArnLike, as IAM documents
	"ArnLike":                  likeARN,
	"IpAddress":                inPrefix,
	"NumericEquals":            numbers(func(want, got float64) bool { return got == want }),
	"NumericLessThan":          numbers(func(want, got float64) bool { return got < want }),
	"NumericLessThanEquals":    numbers(func(want, got float64) bool { return got <= want }),
	"NumericGreaterThan":       numbers(func(want, got float64) bool { return got > want }),
	"NumericGreaterThanEquals": numbers(func(want, got float64) bool { return got >= want }),
	"DateEquals":               dates(func(want, got time.Time) bool { return got.Equal(want) }),
	"DateLessThan":             dates(func(want, got time.Time) bool { return got.Before(want) }),
	"DateLessThanEquals":       dates(func(want, got time.Time) bool { return !got.After(want) }),
	"DateGreaterThan":          dates(func(want, got time.Time) bool { return got.After(want) }),
	"DateGreaterThanEquals":    dates(func(want, got time.Time) bool { return !got.Before(want) }),
}

// negations maps negated operators to those whose matches they exclude.
var negations = map[string]string{
	"StringNotEquals": "StringEquals", "StringNotEqualsIgnoreCase": "StringEqualsIgnoreCase",
	"StringNotLike": "StringLike", "ArnNotEquals": "ArnEquals", "ArnNotLike": "ArnLike", "NotIpAddress": "IpAddress",
	"NumericNotEquals": "NumericEquals", "DateNotEquals": "DateEquals",
}

func newCondition(operator, key string, values []string) (condition, error) {
	c := condition{key: strings.ToLower(key), values: values}
	name, ok := strings.CutPrefix(operator, "ForAllValues:")
	if ok {
		c.set = forAllValues
	} else if name, ok = strings.CutPrefix(operator, "ForAnyValue:"); ok {
		c.set = forAnyValue
	}
	if name == "Null" {
		c.null = true
		return c, nil
	}
	name, c.ifExists = strings.CutSuffix(name, "IfExists")
	if positive := negations[name]; positive != "" {
		name, c.negated = positive, true
	}
	c.compare = comparisons[name]
	if c.compare == nil {
		return c, fmt.Errorf("operator %q is not an IAM operator, or is not supported here", operator)
	}
	return c, nil
}

// holds reports whether a request meets the condition.
func (c condition) holds(in Context) bool {
	got := in[c.key]
	if c.null {
		return slices.ContainsFunc(c.values, func(v string) bool { return strings.EqualFold(v, "true") == (len(got) == 0) })
	}
	if len(got) == 0 {
		switch {
		case c.ifExists, c.set == forAllValues:
			return true
		case c.set == forAnyValue:
			return false
		}
		return c.negated // an absent value does not match
	}
	passes := func(value string) bool {
		found := slices.ContainsFunc(c.values, func(want string) bool {
			g, ok := expand(want, in)
			return ok && c.compare(g, value)
		})
		return found != c.negated
	}
	if c.set == forAllValues || c.set == oneValue && c.negated {
		return !slices.ContainsFunc(got, func(v string) bool { return !passes(v) })
	}
	return slices.ContainsFunc(got, passes)
}

// likeARN matches each of the six parts of an ARN separately.
func likeARN(want glob, got string) bool {
	w, g := want.split(6), strings.SplitN(got, ":", 6)
	if len(w) != 6 || len(g) != 6 {
		return false
	}
	for i := range w {
		if !w[i].matches(g[i]) {
			return false
		}
	}
	return true
}

func inPrefix(want glob, got string) bool {
	text := want.text()
	if !strings.Contains(text, "/") {
		return text == got
	}
	prefix, err := netip.ParsePrefix(text)
	addr, bad := netip.ParseAddr(got)
	return err == nil && bad == nil && prefix.Contains(addr)
}

func numbers(compare func(want, got float64) bool) comparison {
	return func(want glob, got string) bool {
		w, err := strconv.ParseFloat(want.text(), 64)
		g, bad := strconv.ParseFloat(got, 64)
		return err == nil && bad == nil && compare(w, g)
	}
}

func dates(compare func(want, got time.Time) bool) comparison {
	return func(want glob, got string) bool {
		w, ok := date(want.text())
		g, fine := date(got)
		return ok && fine && compare(w, g)
	}
}

// date parses a time in ISO 8601 or in seconds since 1970.
func date(s string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return time.Unix(n, 0), err == nil
}
