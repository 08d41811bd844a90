package ruleset

import (
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// buffers hold a whole table on its way into the kernel, and an answer to each part of it on the way back.
const buffers = 64 << 20

// open is a connection to the kernel's firewall. It needs root (CAP_NET_ADMIN).
func open() (*nftables.Conn, error) {
	return nftables.New(nftables.WithSockOptions(func(c *netlink.Conn) error {
		return errors.Join(c.SetReadBuffer(buffers), c.SetWriteBuffer(buffers))
	}))
}

// Program makes the table what the rules say, at once: no packet sees a part of it. A table of that name that was
// there is replaced.
func (r Ruleset) Program() error {
	c, err := open()
	if err != nil {
		return fmt.Errorf("firewall table %s: %w", r.table, err)
	}
	table := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: r.table}
	c.AddTable(table) // so that it can be deleted
	c.DelTable(table)
	c.AddTable(table)
	for _, ch := range r.chains {
		c.AddChain(ch.in(table))
	}
	sets := map[string]*nftables.Set{}
	for _, s := range r.sets {
		if sets[s.name], err = s.add(c, table); err != nil {
			return fmt.Errorf("firewall table %s: set %s: %w", r.table, s.name, err)
		}
	}
	for _, ch := range r.chains {
		for _, rule := range ch.rules {
			code := rule.code()
			for _, e := range code {
				if l, ok := e.(*expr.Lookup); ok {
					l.SetID = sets[l.SetName].ID
				}
			}
			c.AddRule(&nftables.Rule{Table: table, Chain: ch.in(table), Exprs: code})
		}
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("firewall table %s: %w", r.table, err)
	}
	return nil
}

func (ch chain) in(table *nftables.Table) *nftables.Chain {
	c := &nftables.Chain{Name: ch.name, Table: table}
	if ch.hook != nil {
		accept := nftables.ChainPolicyAccept
		c.Type, c.Hooknum, c.Priority, c.Policy = ch.hook.kind, ch.hook.number, ch.hook.priority, &accept
	}
	return c
}

// mostElements that go into one message: an attribute's length has 16 bits.
const mostElements = 256

// add adds the set to a table.
func (s set) add(c *nftables.Conn, table *nftables.Table) (*nftables.Set, error) {
	into := &nftables.Set{Table: table, Name: s.name, KeyType: s.keys, Concatenation: true}
	if s.isMap {
		into.IsMap, into.DataType = true, nftables.TypeVerdict
	}
	if err := c.AddSet(into, nil); err != nil {
		return nil, err
	}
	var part []nftables.SetElement
	for i, e := range s.elements {
		element := nftables.SetElement{Key: e.key}
		if e.chain != "" {
			element.VerdictData = &expr.Verdict{Kind: expr.VerdictGoto, Chain: e.chain}
		}
		if part = append(part, element); len(part) == mostElements || i == len(s.elements)-1 {
			if err := c.SetAddElements(into, part); err != nil {
				return nil, err
			}
			part = nil
		}
	}
	return into, nil
}

// Remove removes a table; that there is none is no error.
func Remove(table string) error {
	c, err := open()
	if err != nil {
		return fmt.Errorf("remove firewall table %s: %w", table, err)
	}
	c.DelTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: table})
	if err := c.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove firewall table %s: %w", table, err)
	}
	return nil
}

// Possible says whether this process may program the firewall, and if not, why.
func Possible() error {
	c, err := open()
	if err == nil {
		_, err = c.ListTablesOfFamily(nftables.TableFamilyIPv4)
	}
	if err != nil {
		return fmt.Errorf("program the firewall (nftables): %w", err)
	}
	return nil
}

// Foreign names other tables' chains that drop what they do not know, through which the pods' packets go: their rules
// must let the pods' through.
func Foreign(own string) ([]string, error) {
	c, err := open()
	if err != nil {
		return nil, fmt.Errorf("list firewall chains: %w", err)
	}
	chains, err := c.ListChains()
	if err != nil {
		return nil, fmt.Errorf("list firewall chains: %w", err)
	}
	var names []string
	for _, ch := range chains {
		ours := ch.Table.Name == own && ch.Table.Family == nftables.TableFamilyIPv4
		if ours || ch.Hooknum == nil || ch.Policy == nil || *ch.Policy != nftables.ChainPolicyDrop {
			continue
		}
		if ch.Table.Family != nftables.TableFamilyIPv4 && ch.Table.Family != nftables.TableFamilyINet {
			continue
		}
		if *ch.Hooknum == *nftables.ChainHookForward || *ch.Hooknum == *nftables.ChainHookInput {
			names = append(names, ch.Table.Name+" "+ch.Name)
		}
	}
	return names, nil
}

// Exists says whether there is a table of this name: others may have removed it.
func Exists(table string) bool {
	c, err := open()
	if err != nil {
		return false
	}
	_, err = c.ListTableOfFamily(table, nftables.TableFamilyIPv4)
	return err == nil
}
