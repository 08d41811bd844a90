package apng_test

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"testing"
	"time"

	"github.com/nodeless/nodeless/lab/apng"
)

var (
	grey = color.RGBA{200, 200, 200, 255}
	red  = color.RGBA{200, 0, 0, 255}
)

func picture(reds ...image.Point) *image.RGBA {
	m := image.NewRGBA(image.Rect(0, 0, 8, 6))
	draw.Draw(m, m.Rect, image.NewUniform(grey), image.Point{}, draw.Src)
	for _, p := range reds {
		m.SetRGBA(p.X, p.Y, red)
	}
	return m
}

// A decoder that does not support animations shows the first frame; others show each frame as it was, for as long.
func TestFramesAreShownAsTheyWere(t *testing.T) {
	frames := []apng.Frame{
		{picture(), time.Second},
		{picture(), time.Second},
		{picture(image.Pt(2, 1), image.Pt(4, 3)), 250 * time.Millisecond},
		{picture(image.Pt(4, 3)), 100 * time.Second},
	}
	var text bytes.Buffer
	if err := apng.Encode(&text, frames); err != nil {
		t.Fatal(err)
	}
	first, err := png.Decode(bytes.NewReader(text.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the first frame", first, frames[0].Image)
	shown := play(t, text.Bytes(), first)
	if len(shown) != 3 {
		t.Fatalf("%d frames, want 3: the first two are one", len(shown))
	}
	for i, want := range []apng.Frame{
		{frames[0].Image, 2 * time.Second}, frames[2], {frames[3].Image, 65535 * time.Millisecond},
	} {
		same(t, "a frame", shown[i].Image, want.Image)
		if shown[i].Shown != want.Shown {
			t.Errorf("frame %d is shown for %v, want %v", i, shown[i].Shown, want.Shown)
		}
	}
}

func TestFramesOfDifferentSizesAreAnError(t *testing.T) {
	if err := apng.Encode(io.Discard, nil); err == nil {
		t.Error("no frames were written")
	}
	other := image.NewRGBA(image.Rect(0, 0, 1, 1))
	if err := apng.Encode(io.Discard, []apng.Frame{{picture(), 0}, {other, 0}}); err == nil {
		t.Error("frames of two sizes were written")
	}
}

// A palette has at most 256 colours; the reduced picture looks nearly the same.
func TestManyColoursAreNearlyThere(t *testing.T) {
	m := image.NewRGBA(image.Rect(0, 0, 256, 8))
	for i := range m.Rect.Dx() * m.Rect.Dy() {
		m.SetRGBA(i%256, i/256, color.RGBA{uint8(i % 256), uint8(i % 256), uint8(i / 256), 255})
	}
	var text bytes.Buffer
	if err := apng.Encode(&text, []apng.Frame{{m, time.Second}}); err != nil {
		t.Fatal(err)
	}
	got, err := png.Decode(&text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Rect.Dx() {
		r, _, _, _ := got.At(i, 0).RGBA()
		if d := int(r>>8) - i; d > 8 || d < -8 {
			t.Errorf("the red of column %d is %d", i, r>>8)
		}
	}
}

// play decodes the frames of an animation whose first one is known.
func play(t *testing.T, text []byte, first image.Image) (out []apng.Frame) {
	t.Helper()
	colours := first.(*image.Paletted).Palette
	now := image.NewRGBA(first.Bounds())
	var rect image.Rectangle
	next := uint32(0)
	number := func(b []byte) int { return int(binary.BigEndian.Uint32(b)) }
	for rest := text[8:]; len(rest) > 0; {
		n := number(rest)
		body := rest[4 : 8+n]
		if crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(rest[8+n:]) {
			t.Fatalf("chunk %q is broken", body[:4])
		}
		kind, data := string(body[:4]), body[4:]
		rest = rest[12+n:]
		if kind == "fcTL" || kind == "fdAT" {
			if got := binary.BigEndian.Uint32(data); got != next {
				t.Errorf("%s has number %d, want %d", kind, got, next)
			}
			next++
			data = data[4:]
		}
		switch kind {
		case "fcTL":
			x, y := number(data[8:]), number(data[12:])
			rect = image.Rect(x, y, x+number(data), y+number(data[4:]))
			shown := time.Duration(binary.BigEndian.Uint16(data[16:])) * time.Millisecond
			out = append(out, apng.Frame{Shown: shown})
		case "IDAT", "fdAT":
			paint(t, now, rect, colours, data)
			copied := image.NewRGBA(now.Rect)
			copy(copied.Pix, now.Pix)
			out[len(out)-1].Image = copied
		}
	}
	return out
}

func paint(t *testing.T, onto *image.RGBA, rect image.Rectangle, colours color.Palette, data []byte) {
	t.Helper()
	z, err := zlib.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := io.ReadAll(z)
	if err != nil || len(rows) != (rect.Dx()+1)*rect.Dy() {
		t.Fatalf("%d bytes for %v: %v", len(rows), rect, err)
	}
	for y := range rect.Dy() {
		for x := range rect.Dx() {
			if i := rows[y*(rect.Dx()+1)+1+x]; i != 0 {
				onto.Set(rect.Min.X+x, rect.Min.Y+y, colours[i])
			}
		}
	}
}

func same(t *testing.T, what string, got, want image.Image) {
	t.Helper()
	for y := range want.Bounds().Dy() {
		for x := range want.Bounds().Dx() {
			if color.RGBAModel.Convert(got.At(x, y)) != color.RGBAModel.Convert(want.At(x, y)) {
				t.Fatalf("%s: at %d, %d it is %v, want %v", what, x, y, got.At(x, y), want.At(x, y))
			}
		}
	}
}
