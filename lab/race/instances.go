package main

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"
)

// instance is an instance as the region reports it.
type instance struct {
	ID           string    `json:"id"`
	Type         string    `json:"type"`
	Zone         string    `json:"zone"`
	CapacityType string    `json:"capacityType"`
	PriceMicros  int64     `json:"priceMicros"` // millionths of a dollar per hour
	LaunchedAt   time.Time `json:"launchedAt"`
	TerminatedAt time.Time `json:"terminatedAt,omitzero"`
}

func (c *cluster) instances(ctx context.Context) ([]instance, error) {
	var all []instance
	return all, c.region(ctx, http.MethodGet, "instances", nil, &all)
}

// ends returns when an instance ceased to cost money, but at most latest.
func (i *instance) ends(latest time.Time) time.Time {
	if i.TerminatedAt.IsZero() || i.TerminatedAt.After(latest) {
		return latest
	}
	return i.TerminatedAt
}

func (i *instance) perHour() float64 { return float64(i.PriceMicros) / 1e6 }

// costs are the costs of instances in a window.
type costs struct {
	Launched    int     `json:"launched"` // in the window
	Nodes       int     `json:"nodes"`    // at its end
	RestPerHour float64 `json:"dollarsPerHourAtRest"`
	Dollars     float64 `json:"dollars"` // price × time from launch to termination, within the window
	NodeSeconds float64 `json:"nodeSeconds"`
}

func costsOf(all []instance, start, end time.Time) costs {
	var c costs
	for _, i := range all {
		from, to := i.LaunchedAt, i.ends(end)
		if from.Before(start) {
			from = start
		} else if from.Before(end) {
			c.Launched++
		}
		if i.TerminatedAt.IsZero() || i.TerminatedAt.After(end) {
			c.Nodes++
			c.RestPerHour += i.perHour()
		}
		if to.After(from) {
			c.NodeSeconds += to.Sub(from).Seconds()
			c.Dollars += i.perHour() * to.Sub(from).Hours()
		}
	}
	return c
}

// calls counts the calls to AWS in a window by name, without long polls of the interruption queue, whose number
// depends only on time.
func (c *cluster) calls(ctx context.Context, start, end time.Time) (map[string]int, error) {
	var all []struct {
		API  string    `json:"api"`
		Time time.Time `json:"time"`
	}
	if err := c.region(ctx, http.MethodGet, "calls", nil, &all); err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, call := range all {
		if !call.Time.Before(start) && call.Time.Before(end) {
			counts[call.API]++
		}
	}
	maps.DeleteFunc(counts, func(api string, _ int) bool { return slices.Contains(polls, api) })
	return counts, nil
}

var polls = []string{"ReceiveMessage"}
