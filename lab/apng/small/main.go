// Command small copies pictures into a folder with a palette of 255 colours, which reduces them to a third of their
// size:
//
//	go run ./lab/apng/small FOLDER PICTURE...
package main

import (
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"

	"github.com/nodeless/nodeless/lab/apng"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "small: name a folder, and pictures to copy into it")
		os.Exit(2)
	}
	for _, path := range os.Args[2:] {
		if err := copyInto(os.Args[1], path); err != nil {
			fmt.Fprintln(os.Stderr, "small:", err)
			os.Exit(1)
		}
	}
}

func copyInto(folder, path string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	m, err := png.Decode(in)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	frame := image.NewRGBA(m.Bounds())
	draw.Draw(frame, frame.Rect, m, m.Bounds().Min, draw.Src)
	out, err := os.Create(filepath.Join(folder, filepath.Base(path)))
	if err != nil {
		return err
	}
	if err := apng.Encode(out, []apng.Frame{{Image: frame}}); err != nil {
		return fmt.Errorf("write %s: %w", out.Name(), err)
	}
	return out.Close()
}
