package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// frames takes the channel to the host away from the agent, and writes into it what the protocol forbids, what it
// allows, and noise.
func frames(until time.Time) error {
	ports, err := filepath.Glob("/sys/class/virtio-ports/*")
	if err != nil || len(ports) == 0 {
		return errors.Join(err, errors.New("there is no virtio-serial port"))
	}
	device, err := filepath.EvalSymlinks(filepath.Join(ports[0], "device"))
	if err != nil {
		return err
	}
	log.Print("taking the channel")
	time.Sleep(15 * time.Second) // so that the host hears of it, too
	const driver = "/sys/bus/virtio/drivers/virtio_console/"
	for _, action := range []string{"unbind", "bind"} {
		if err := os.WriteFile(driver+action, []byte(filepath.Base(device)), 0); err != nil {
			return err
		}
	}
	var port *os.File
	for port == nil && time.Now().Before(until) {
		time.Sleep(10 * time.Millisecond)
		port, err = openPort()
	}
	if err != nil {
		return err
	}
	for i := uint32(0); time.Now().Before(until); i++ {
		payload := noise(rand.IntN(200))
		frame := append([]byte{'N', byte(1 + i%8), byte(i % 3), 0}, binary.BigEndian.AppendUint32(nil, i%64)...)
		frame = binary.BigEndian.AppendUint32(frame, uint32(len(payload))<<(i%9))
		if _, err := port.Write(append(frame, payload...)); err != nil {
			return err
		}
	}
	return nil
}

func openPort() (*os.File, error) {
	ports, _ := filepath.Glob("/sys/class/virtio-ports/*/dev")
	for _, port := range ports {
		number, err := os.ReadFile(port)
		if err != nil {
			return nil, err
		}
		var major, minor int
		if _, err := fmt.Sscanf(string(number), "%d:%d", &major, &minor); err != nil {
			return nil, err
		}
		_ = os.Remove("/tmp/port")
		if err := syscall.Mknod("/tmp/port", syscall.S_IFCHR|0o600, major<<8|minor); err != nil {
			return nil, fmt.Errorf("mknod: %w", err)
		}
		return os.OpenFile("/tmp/port", os.O_RDWR, 0)
	}
	return nil, errors.New("no port is left")
}

// registers takes all virtio devices away from the kernel, and writes anything into their registers. This program is in
// memory, since there will be no disk to read it from.
func registers(until time.Time) error {
	const drivers = "/sys/bus/platform/drivers/virtio-mmio/"
	bases := registersAt()
	if len(bases) == 0 {
		return errors.New("no virtio device in /proc/iomem")
	}
	names, err := filepath.Glob(drivers + mmioDevice + "*")
	if err != nil {
		return err
	}
	memory, err := openMemory()
	if err != nil {
		return err
	}
	log.Printf("writing into %d devices", len(bases))
	time.Sleep(15 * time.Second) // so that the host hears of it
	for _, name := range names {
		if err := os.WriteFile(drivers+"unbind", []byte(filepath.Base(name)), 0); err != nil {
			return err
		}
	}
	page := uint64(os.Getpagesize())
	var windows [][]byte
	for _, base := range bases {
		window, err := syscall.Mmap(memory, int64(base&^(page-1)), int(page), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
		if err != nil {
			return fmt.Errorf("map %#x: %w", base, err)
		}
		windows = append(windows, window[base%page:])
	}
	for time.Now().Before(until) {
		for range 1000 {
			w := windows[rand.IntN(len(windows))]
			at := settings[rand.IntN(len(settings))]
			*(*uint32)(unsafe.Pointer(&w[at])) = value()
		}
	}
	return nil
}

// settings are a virtio-mmio device's registers that a driver writes, and the beginning of its configuration (Virtual I/O
// Device Version 1.2, 4.2.2).
var settings = []int{
	0x14, 0x20, 0x24, 0x30, 0x38, 0x44, 0x50, 0x50, 0x64, 0x70, 0x80, 0x84, 0x90, 0x94, 0xa0, 0xa4, 0xc0, 0x100, 0x104, 0x108,
}

// value is small, an address in the guest's memory, or any.
func value() uint32 {
	switch rand.IntN(4) {
	case 0:
		return rand.Uint32N(4)
	case 1:
		return 15 // a driver that is ready
	case 2:
		return rand.Uint32N(256<<20) &^ 0xfff
	}
	return rand.Uint32()
}

func openMemory() (int, error) {
	_ = os.Remove("/tmp/mem")
	if err := syscall.Mknod("/tmp/mem", syscall.S_IFCHR|0o600, 1<<8|1); err != nil {
		return 0, err
	}
	return syscall.Open("/tmp/mem", syscall.O_RDWR|syscall.O_SYNC, 0)
}

// mmioDevice begins the names of virtio-mmio devices, which the firmware's tables describe.
const mmioDevice = "LNRO0005:"

// registersAt are where the registers of virtio-mmio devices begin.
func registersAt() (all []uint64) {
	text, _ := os.ReadFile("/proc/iomem")
	for line := range bytes.Lines(text) {
		var from, to uint64
		if n, _ := fmt.Sscanf(strings.TrimSpace(string(line)), "%x-%x", &from, &to); n == 2 && bytes.HasPrefix(line, []byte("fe")) && bytes.Contains(line, []byte(mmioDevice)) {
			all = append(all, from)
		}
	}
	return all
}
