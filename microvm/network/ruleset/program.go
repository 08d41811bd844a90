package ruleset

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// buffers is the size of socket buffers that hold a whole table on its way to the kernel, and the kernel's reply to
// each part of it.
const buffers = 64 << 20

// connect connects to the kernel's firewall, which needs CAP_NET_ADMIN.
func connect() (*nftables.Conn, error) {
	return nftables.New(nftables.WithSockOptions(func(c *netlink.Conn) error {
		return errors.Join(c.SetReadBuffer(buffers), c.SetWriteBuffer(buffers))
	}))
}

// Program replaces the kernel's table atomically: no packet sees a partial table.
func (r Ruleset) Program() error {
	c, err := connect()
	if err == nil {
		err = r.add(c)
	}
	if err == nil {
		err = c.Flush()
	}
	if err != nil {
		return fmt.Errorf("firewall table %s: %w", r.table, err)
	}
	return nil
}

func (r Ruleset) add(c *nftables.Conn) error {
	table := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: r.table}
	c.AddTable(table) // so that it can be deleted
	c.DelTable(table)
	c.AddTable(table)
	for _, ch := range r.chains {
		c.AddChain(ch.in(table))
	}
	ids := map[string]uint32{}
	for _, s := range r.sets {
		added, err := s.add(c, table)
		if err != nil {
			return fmt.Errorf("set %s: %w", s.name, err)
		}
		ids[s.name] = added.ID
	}
	for _, ch := range r.chains {
		for _, rule := range ch.rules {
			code, err := compile(rule)
			if err != nil {
				return err
			}
			for _, e := range code {
				if l, ok := e.(*expr.Lookup); ok {
					l.SetID = ids[l.SetName]
				}
			}
			c.AddRule(&nftables.Rule{Table: table, Chain: ch.in(table), Exprs: code})
		}
	}
	return nil
}

// maxElements is the maximum number of elements in a message: the length of an attribute has 16 bits.
const maxElements = 256

// add adds the set to a table.
func (s set) add(c *nftables.Conn, table *nftables.Table) (*nftables.Set, error) {
	into := &nftables.Set{Table: table, Name: s.name, KeyType: s.datatype(), Concatenation: true}
	if s.isMap() {
		into.IsMap, into.DataType = true, nftables.TypeVerdict
	}
	if err := c.AddSet(into, nil); err != nil {
		return nil, err
	}
	for part := range slices.Chunk(s.elements, maxElements) {
		var elements []nftables.SetElement
		for _, e := range part {
			element := nftables.SetElement{Key: e.encode()}
			if e.chain != "" {
				element.VerdictData = &expr.Verdict{Kind: expr.VerdictGoto, Chain: e.chain}
			}
			elements = append(elements, element)
		}
		if err := c.SetAddElements(into, elements); err != nil {
			return nil, err
		}
	}
	return into, nil
}

// Remove removes a table. It is no error if there is none.
func Remove(table string) error {
	c, err := connect()
	if err == nil {
		c.DelTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: table})
		err = c.Flush()
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove firewall table %s: %w", table, err)
	}
	return nil
}

// Available returns why this process cannot program the firewall, nil if it can.
func Available() error {
	c, err := connect()
	if err == nil {
		_, err = c.ListTablesOfFamily(nftables.TableFamilyIPv4)
	}
	if err != nil {
		return fmt.Errorf("program the firewall (nftables): %w", err)
	}
	return nil
}

// OthersDropping returns the chains of other tables that pods' packets traverse and whose policy is to drop: their
// rules must accept these packets.
func OthersDropping(own string) (names []string, err error) {
	c, err := connect()
	var chains []*nftables.Chain
	if err == nil {
		chains, err = c.ListChains()
	}
	if err != nil {
		return nil, fmt.Errorf("list firewall chains: %w", err)
	}
	for _, ch := range chains {
		family := ch.Table.Family
		ours := ch.Table.Name == own && family == nftables.TableFamilyIPv4
		if !ours && (family == nftables.TableFamilyIPv4 || family == nftables.TableFamilyINet) &&
			ch.Hooknum != nil && (*ch.Hooknum == *nftables.ChainHookForward || *ch.Hooknum == *nftables.ChainHookInput) &&
			ch.Policy != nil && *ch.Policy == nftables.ChainPolicyDrop {
			names = append(names, ch.Table.Name+" "+ch.Name)
		}
	}
	return names, nil
}

// Exists reports whether the kernel has a table: others may have removed it.
func Exists(table string) bool {
	c, err := connect()
	if err == nil {
		_, err = c.ListTableOfFamily(table, nftables.TableFamilyIPv4)
	}
	return err == nil
}
