package apng

import (
	"cmp"
	"image"
	"image/color"
	"maps"
	"slices"
)

// transparent is the index of the colour that leaves the previous frame visible.
const transparent = 0

// most is the maximum number of colours in addition to the transparent one.
const most = 255

// palette is the palette of all frames.
type palette struct {
	colours []color.RGBA
	index   map[color.RGBA]uint8 // caches looked-up colours
}

// newPalette returns a palette of the most frequent colours. Of colours that differ little, it takes only the most
// frequent one.
func newPalette(frames []Frame) *palette {
	counts := map[color.RGBA]int{}
	for _, f := range frames {
		for y := f.Image.Rect.Min.Y; y < f.Image.Rect.Max.Y; y++ {
			for x := f.Image.Rect.Min.X; x < f.Image.Rect.Max.X; x++ {
				counts[opaque(f.Image.RGBAAt(x, y))]++
			}
		}
	}
	type bucket struct {
		colour    color.RGBA // the most frequent one, which best pixels have
		best, sum int
	}
	alike := map[color.RGBA]*bucket{}
	fine := len(counts) <= most
	for c, n := range counts {
		key := c
		if !fine {
			key.R, key.G, key.B = c.R>>3, c.G>>3, c.B>>3
		}
		b := alike[key]
		if b == nil {
			b = &bucket{}
			alike[key] = b
		}
		b.sum += n
		if n > b.best || n == b.best && before(c, b.colour) {
			b.colour, b.best = c, n
		}
	}
	all := slices.SortedFunc(maps.Values(alike), func(a, b *bucket) int {
		return cmp.Or(b.sum-a.sum, cmp.Compare(number(a.colour), number(b.colour)))
	})
	p := &palette{colours: []color.RGBA{{A: 255}}, index: map[color.RGBA]uint8{}}
	for _, b := range all[:min(most, len(all))] {
		p.colours = append(p.colours, b.colour)
	}
	return p
}

func number(c color.RGBA) int { return int(c.R)<<16 | int(c.G)<<8 | int(c.B) }

func before(a, b color.RGBA) bool { return number(a) < number(b) }

// of converts a picture to the palette.
func (p *palette) of(m *image.RGBA) *image.Paletted {
	out := image.NewPaletted(m.Rect, nil)
	for y := m.Rect.Min.Y; y < m.Rect.Max.Y; y++ {
		for x := m.Rect.Min.X; x < m.Rect.Max.X; x++ {
			out.SetColorIndex(x, y, p.nearest(opaque(m.RGBAAt(x, y))))
		}
	}
	return out
}

func (p *palette) nearest(c color.RGBA) uint8 {
	if i, ok := p.index[c]; ok {
		return i
	}
	best, least := 0, 1<<30
	for i, q := range p.colours[1:] {
		r, g, b := int(c.R)-int(q.R), int(c.G)-int(q.G), int(c.B)-int(q.B)
		if d := 3*r*r + 4*g*g + 2*b*b; d < least { // the eye sees green best, blue worst
			best, least = i+1, d
		}
	}
	p.index[c] = uint8(best)
	return uint8(best)
}

func (p *palette) bytes() (out []byte) {
	for _, c := range p.colours {
		out = append(out, c.R, c.G, c.B)
	}
	return out
}
