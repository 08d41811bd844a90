package vmm

import (
	"encoding/binary"
	"errors"
)

// lz4Magic begins LZ4's legacy frame, in which kernels are packed: blocks, each after its size in four bytes (LZ4
// Frame Format Description, section "Legacy frame").
const lz4Magic = "\x02\x21\x4c\x18"

var errLZ4 = errors.New("broken LZ4 data")

// unpackLZ4 unpacks the blocks of a legacy frame, which hold size bytes.
func unpackLZ4(blocks []byte, size int) ([]byte, error) {
	out := make([]byte, 0, min(size, 255*len(blocks))) // no block unpacks to more
	for len(blocks) > 0 {
		if len(blocks) < 4 {
			return nil, errLZ4
		}
		n := int64(binary.LittleEndian.Uint32(blocks))
		if n > int64(len(blocks)-4) {
			return nil, errLZ4
		}
		var err error
		if out, err = unpackBlock(out, blocks[4:4+n], size); err != nil {
			return nil, err
		}
		blocks = blocks[4+n:]
	}
	if len(out) != size {
		return nil, errLZ4
	}
	return out, nil
}

// unpackBlock appends a block to out, up to limit bytes in all (LZ4 Block Format Description). Blocks of a legacy
// frame do not refer to earlier ones.
func unpackBlock(out, in []byte, limit int) ([]byte, error) {
	begin := len(out)
	for len(in) > 0 {
		token := in[0]
		literals, rest, ok := length(int(token>>4), in[1:])
		if !ok || literals > len(rest) || literals > limit-len(out) {
			return nil, errLZ4
		}
		out, in = append(out, rest[:literals]...), rest[literals:]
		if len(in) == 0 {
			return out, nil // the last sequence has no match
		}
		if len(in) < 2 {
			return nil, errLZ4
		}
		offset := int(binary.LittleEndian.Uint16(in))
		match, rest, ok := length(int(token&15), in[2:])
		match += 4 // the shortest
		if !ok || offset == 0 || offset > len(out)-begin || match > limit-len(out) {
			return nil, errLZ4
		}
		for in = rest; match > 0; { // a match may overlap what it makes
			n := min(match, offset)
			from := len(out) - offset
			out = append(out, out[from:from+n]...)
			match -= n
		}
	}
	return out, nil
}

// length reads on after the four bits of a token: 15 means that more is added, by each byte up to one that is not 255.
func length(n int, in []byte) (int, []byte, bool) {
	if n < 15 {
		return n, in, true
	}
	for i, b := range in {
		n += int(b)
		if b != 255 {
			return n, in[i+1:], true
		}
	}
	return 0, nil, false
}
