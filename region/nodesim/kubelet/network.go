package kubelet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
)

// Network connects the API server to the kubelets of simulated nodes and, for all other addresses, to the host's
// network. It is also the net.Listener of those kubelets.
type Network struct {
	came   chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu    sync.Mutex
	nodes Nodes                     // nil until the simulator runs
	open  map[netip.AddrPort]string // the node of each connection, by its address on the node's side
	next  map[netip.Addr]uint16     // the port of the next connection to an address
}

// NewNetwork returns a network without nodes.
func NewNetwork() *Network {
	return &Network{
		came: make(chan net.Conn), closed: make(chan struct{}), open: map[netip.AddrPort]string{},
		next: map[netip.Addr]uint16{},
	}
}

func (n *Network) join(nodes Nodes) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nodes = nodes
}

// DialContext connects to a simulated node's kubelet or, for other addresses, over the host's network.
func (n *Network) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	nodes := n.nodes
	n.mu.Unlock()
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("kubelet at %q: %w", address, err)
	}
	var node string
	var ip netip.Addr
	if nodes != nil {
		if node, ip, err = nodes.Host(host); err != nil {
			return nil, err
		}
	}
	if node == "" {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	client, server, err := socketPair()
	if err != nil {
		return nil, fmt.Errorf("kubelet of simulated node %s: %w", node, err)
	}
	select {
	case n.came <- n.enter(server, node, ip):
		return client, nil
	case <-n.closed:
		err = net.ErrClosed
	case <-ctx.Done():
		err = ctx.Err()
	}
	_, _ = client.Close(), server.Close()
	return nil, fmt.Errorf("kubelet of simulated node %s: %w", node, err)
}

// enter gives a connection a unique local address, by which the server identifies the node.
func (n *Network) enter(c net.Conn, node string, ip netip.Addr) net.Conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := netip.AddrPortFrom(ip, max(n.next[ip], 1))
	for n.open[at] != "" {
		at = netip.AddrPortFrom(ip, max(at.Port()+1, 1))
	}
	n.next[ip] = at.Port() + 1
	n.open[at] = node
	return &conn{Conn: c, at: at, leave: sync.OnceFunc(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.open, at)
	})}
}

func (n *Network) nodeAt(local netip.AddrPort) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	node, ok := n.open[local]
	return node, ok
}

// Accept implements net.Listener.
func (n *Network) Accept() (net.Conn, error) {
	select {
	case c := <-n.came:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (n *Network) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

// Addr implements net.Listener.
func (*Network) Addr() net.Addr { return &net.UnixAddr{Name: "simulated nodes", Net: "unix"} }

// conn is a connection from the node's side.
type conn struct {
	net.Conn
	at    netip.AddrPort
	leave func()
}

func (c *conn) LocalAddr() net.Addr  { return net.TCPAddrFromAddrPort(c.at) }
func (c *conn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (c *conn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// socketPair returns both ends of a buffered connection. TLS needs the buffers: both sides may write before they
// read.
func socketPair() (a, b net.Conn, err error) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	var conns [2]net.Conn
	for i, fd := range ends {
		syscall.CloseOnExec(fd)
		f := os.NewFile(uintptr(fd), "kubelet")
		c, e := net.FileConn(f) // duplicates the descriptor
		_ = f.Close()
		if e != nil {
			err = e
		}
		conns[i] = c
	}
	if err != nil {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
		return nil, nil, err
	}
	return conns[0], conns[1], nil
}
