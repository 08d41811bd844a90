package web

import "slices"

// point is a frame on the timeline: number, milliseconds since 1970, nodes, price, bound pods, pending pods.
type point [6]int64

// points returns the frames as a timeline.
func (h *history) points() []point {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]point, len(h.frames))
	for i := range h.frames {
		f := &h.frames[i]
		out[i] = point{
			f.seq, f.at.UnixMilli(), int64(f.totals.Rows), f.totals.Price, int64(f.totals.Bound),
			int64(f.totals.Waiting),
		}
	}
	return thinned(out)
}

// mostPoints is how many points a timeline has at most: about as many as it has pixels.
const mostPoints = 2000

// thinned returns at most mostPoints of the points: the first, the last, and those of each of many equal runs between
// them at which the nodes, the price or the pods of either kind were fewest or most, so that the chart keeps its peaks.
func thinned(all []point) []point {
	if len(all) <= mostPoints {
		return all
	}
	const firstSum, ofRun = 2, 8 // a run keeps the lowest and the highest of four sums
	const runs = (mostPoints - 2) / ofRun
	last := len(all) - 1
	out := append(make([]point, 0, mostPoints), all[0])
	for i := range runs {
		from, to := 1+i*(last-1)/runs, 1+(i+1)*(last-1)/runs
		keep := make([]int, 0, ofRun)
		for sum := firstSum; sum < len(point{}); sum++ {
			low, high := from, from
			for j := from + 1; j < to; j++ {
				if all[j][sum] < all[low][sum] {
					low = j
				}
				if all[j][sum] > all[high][sum] {
					high = j
				}
			}
			keep = append(keep, low, high)
		}
		slices.Sort(keep)
		for _, j := range slices.Compact(keep) {
			out = append(out, all[j])
		}
	}
	return append(out, all[last])
}
