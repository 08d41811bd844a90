// Package apng writes animated PNGs (W3C, Portable Network Graphics, third edition, 24 June 2025) for the page's
// animation in the README. All frames share a palette, and each frame holds only the differences from the previous
// one.
package apng

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"io"
	"time"
)

// Frame is a picture and how long it is shown.
type Frame struct {
	Image *image.RGBA
	Shown time.Duration
}

// Encode writes frames of equal size as an animation that repeats. It merges consecutive frames that look the same.
func Encode(w io.Writer, frames []Frame) error {
	if len(frames) == 0 {
		return errors.New("an animation needs a frame")
	}
	size := frames[0].Image.Bounds()
	colours := newPalette(frames)
	var parts []part
	var before *image.Paletted
	for _, f := range frames {
		if f.Image.Bounds() != size {
			return fmt.Errorf("a frame is %v, and the first one %v", f.Image.Bounds(), size)
		}
		now := colours.of(f.Image)
		rect := size
		if before != nil {
			rect = differing(before, now)
		}
		if rect.Empty() {
			parts[len(parts)-1].shown += f.Shown
			continue
		}
		parts = append(parts, part{rect, f.Shown, rows(before, now, rect)})
		before = now
	}
	e := encoder{w: w}
	e.write(size, colours, parts)
	return e.err
}

// part is the part of a picture that a frame changes.
type part struct {
	rect  image.Rectangle
	shown time.Duration
	rows  []byte // palette indices; each row is preceded by its filter type
}

// differing returns the smallest rectangle outside which two frames are equal.
func differing(a, b *image.Paletted) (out image.Rectangle) {
	for y := a.Rect.Min.Y; y < a.Rect.Max.Y; y++ {
		for x := a.Rect.Min.X; x < a.Rect.Max.X; x++ {
			if a.ColorIndexAt(x, y) != b.ColorIndexAt(x, y) {
				out = out.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	return out
}

// rows returns a rectangle's pixels, transparent where they have not changed.
func rows(before, now *image.Paletted, rect image.Rectangle) []byte {
	out := make([]byte, 0, (rect.Dx()+1)*rect.Dy())
	for y := rect.Min.Y; y < rect.Max.Y; y++ {
		out = append(out, 0) // no filter: adjacent palette indices are unrelated
		for x := rect.Min.X; x < rect.Max.X; x++ {
			c := now.ColorIndexAt(x, y)
			if before != nil && before.ColorIndexAt(x, y) == c {
				c = transparent
			}
			out = append(out, c)
		}
	}
	return out
}

// encoder writes chunks until a write fails.
type encoder struct {
	w    io.Writer
	next uint32 // sequence number
	err  error
}

func (e *encoder) write(size image.Rectangle, colours *palette, parts []part) {
	_, e.err = io.WriteString(e.w, "\x89PNG\r\n\x1a\n")
	const indexed, bits = 3, 8
	e.chunk("IHDR", words(uint32(size.Dx()), uint32(size.Dy())), []byte{bits, indexed, 0, 0, 0})
	e.chunk("acTL", words(uint32(len(parts)), 0))
	e.chunk("PLTE", colours.bytes())
	e.chunk("tRNS", []byte{transparent: 0})
	for i, p := range parts {
		const leave, over = 0, 1
		e.chunk("fcTL", e.sequence(), words(uint32(p.rect.Dx()), uint32(p.rect.Dy()), uint32(p.rect.Min.X-size.Min.X),
			uint32(p.rect.Min.Y-size.Min.Y)),
			binary.BigEndian.AppendUint16(nil, uint16(min(p.shown.Milliseconds(), 1<<16-1))),
			binary.BigEndian.AppendUint16(nil, 1000), []byte{leave, over})
		if i == 0 {
			e.chunk("IDAT", e.packed(p.rows))
		} else {
			e.chunk("fdAT", e.sequence(), e.packed(p.rows))
		}
	}
	e.chunk("IEND")
}

func (e *encoder) sequence() []byte {
	e.next++
	return words(e.next - 1)
}

func (e *encoder) packed(data []byte) []byte {
	var out bytes.Buffer
	z, err := zlib.NewWriterLevel(&out, zlib.BestCompression)
	if err == nil {
		_, err = z.Write(data)
	}
	if err == nil {
		err = z.Close()
	}
	e.err = errors.Join(e.err, err)
	return out.Bytes()
}

func (e *encoder) chunk(kind string, parts ...[]byte) {
	body := bytes.Join(append([][]byte{[]byte(kind)}, parts...), nil)
	text := words(uint32(len(body) - len(kind)))
	text = append(text, body...)
	text = binary.BigEndian.AppendUint32(text, crc32.ChecksumIEEE(body))
	if e.err == nil {
		_, e.err = e.w.Write(text)
	}
}

func words(of ...uint32) (out []byte) {
	for _, w := range of {
		out = binary.BigEndian.AppendUint32(out, w)
	}
	return out
}

func opaque(c color.RGBA) color.RGBA {
	c.A = 255
	return c
}
