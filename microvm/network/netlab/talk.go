package netlab

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"
)

type call struct {
	Do   string
	Args []string
}

type answer struct{ Text, Error string }

// Call runs one of the machine's handlers.
func (m *Machine) Call(do string, args ...string) (string, error) {
	var a answer
	if err := m.in.Encode(call{do, args}); err != nil {
		return "", err
	}
	if err := m.out.Decode(&a); err != nil {
		return "", fmt.Errorf("machine %s: %w", m.Name, err)
	}
	if a.Error != "" {
		return a.Text, fmt.Errorf("machine %s: %s", m.Name, a.Error)
	}
	return a.Text, nil
}

// Listen makes the machine listen at an address, over "tcp" or "udp", and answer with its name and the client's
// address.
func (m *Machine) Listen(t *testing.T, network, address string) {
	t.Helper()
	if _, err := m.Call("listen", m.Name, network, address); err != nil {
		t.Fatal(err)
	}
}

// Ask connects from the machine to an address and returns the answer.
func (m *Machine) Ask(network, address string) (string, error) {
	return m.Call("ask", network, address)
}

// handlers are the functions that Call can run, by name.
var handlers = map[string]func(args []string) (string, error){
	"ip": func(args []string) (string, error) {
		out, err := exec.Command("ip", args...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return string(out), err
	},
	"listen": func(args []string) (string, error) { return "", listen(args[0], args[1], args[2]) },
	"ask":    func(args []string) (string, error) { return Ask(args[0], args[1]) },
	"hear":   hear,
	"heard":  heard,
	"say":    say,
}

// Handle adds a handler. It must be called before Main.
func Handle(do string, f func(args []string) (string, error)) { handlers[do] = f }

func listen(name, network, address string) error {
	if network == "udp" {
		conn, err := net.ListenPacket("udp4", address)
		if err != nil {
			return err
		}
		go func() {
			b := make([]byte, 64)
			for {
				_, from, err := conn.ReadFrom(b)
				if err != nil {
					return
				}
				_, _ = conn.WriteTo([]byte(name+" saw "+from.(*net.UDPAddr).IP.String()), from)
			}
		}()
		return nil
	}
	l, err := net.Listen("tcp4", address)
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, name+" saw "+conn.RemoteAddr().(*net.TCPAddr).IP.String())
			_ = conn.Close()
		}
	}()
	return nil
}

// timeout limits the wait for an answer; a refusal is immediate.
const timeout = 10 * time.Second

// Ask connects from the test's own namespace to an address and returns the answer.
func Ask(network, address string) (string, error) {
	conn, err := net.DialTimeout(network+"4", address, timeout)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(timeout))
	if network == "udp" {
		if _, err := conn.Write([]byte("?")); err != nil {
			return "", err
		}
		b := make([]byte, 256)
		n, err := conn.Read(b)
		return string(b[:n]), err
	}
	b, err := io.ReadAll(conn)
	return string(b), err
}

// ears are the open UDP sockets, by address.
var ears = map[string]net.PacketConn{}

// hear opens a UDP socket at an address (args[0]).
func hear(args []string) (_ string, err error) {
	ears[args[0]], err = net.ListenPacket("udp4", args[0])
	return "", err
}

// heard returns the next packet that arrives at an address (args[0]).
func heard(args []string) (string, error) {
	b := make([]byte, 256)
	_ = ears[args[0]].SetReadDeadline(time.Now().Add(time.Minute))
	n, _, err := ears[args[0]].ReadFrom(b)
	return string(b[:n]), err
}

// say sends a packet (args[2]) from one address (args[0]) to another (args[1]).
func say(args []string) (string, error) {
	conn, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.ParseIP(args[0])},
		net.UDPAddrFromAddrPort(netip.MustParseAddrPort(args[1])))
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	_, err = conn.Write([]byte(args[2]))
	return "", err
}
