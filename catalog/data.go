package catalog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:generate go -C generate run -mod=mod .

// packed is the generated table. Fields are separated by tabs. The first line is "# origin". A type is one line, "T
// name vcpu MiB arch maker GHz hypervisor metal enis ips branch Mbps baseMbps ebs ebsMax nvmeGB current burstable gpu
// accelerator", followed by its offers, "P region zones price spots spotAverage interruption". The last line is "L
// number left out".
//
//go:embed data.tsv.gz
var packed []byte

type table struct {
	origin      string
	leftOut     int
	types       []*Type
	byName      map[string]*Type
	regions     map[string]*Region
	regionNames []string
}

// list returns the zones of a comma-separated list of IDs.
func (r *Region) list(region, ids string) []Zone {
	zones, ok := r.lists[ids]
	if ok {
		return zones
	}
	for _, id := range strings.Split(ids, ",") {
		zone := Zone{Name: zoneName(region, id), ID: id}
		zones = append(zones, zone)
		if !slices.Contains(r.zones, zone) {
			r.zones = append(r.zones, zone)
		}
	}
	r.lists[ids] = zones
	return zones
}

// load unpacks the table once. The table is part of the program, so a damaged one means a broken build.
var load = sync.OnceValue(func() *table {
	t, err := read(packed)
	if err != nil {
		panic(fmt.Sprintf("catalog: the built-in table is damaged: %v", err))
	}
	return t
})

func read(data []byte) (*table, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	t := &table{byName: map[string]*Type{}, regions: map[string]*Region{}}
	var current *Type
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		f := strings.Split(lines.Text(), "\t")
		switch {
		case strings.HasPrefix(f[0], "# "):
			t.origin = f[0][2:]
		case f[0] == "T" && len(f) == 21:
			current = readType(f)
			t.types = append(t.types, current)
			t.byName[current.Name] = current
		case f[0] == "P" && len(f) == 7 && current != nil:
			t.addOffer(current, f)
		case f[0] == "L" && len(f) == 2:
			t.leftOut = whole(f[1])
		default:
			return nil, fmt.Errorf("line %d: %d fields of kind %q", n, len(f), f[0])
		}
	}
	t.finish()
	return t, lines.Err()
}

func readType(f []string) *Type {
	t := &Type{
		Name: f[1], VCPU: whole(f[2]), MemoryMiB: int64(whole(f[3])), Arch: f[4], CPUManufacturer: f[5],
		Hypervisor: f[7], BareMetal: f[8] == "1", MaxENIs: whole(f[9]), IPv4PerENI: whole(f[10]), BranchENIs: whole(f[11]),
		NetworkMbps: whole(f[12]), NetworkBaseMbps: whole(f[13]), EBSMbps: whole(f[14]), EBSMaxMbps: whole(f[15]),
		LocalNVMeGB: whole(f[16]), CurrentGeneration: f[17] == "1", Burstable: f[18] == "1",
	}
	t.ClockGHz, _ = strconv.ParseFloat(f[6], 64)
	var n int
	t.GPU, n = readDevice(f[19])
	t.GPU.MiB = n
	t.Accelerator, n = readDevice(f[20])
	t.Accelerator.Cores = n
	t.Family, t.Size, _ = strings.Cut(t.Name, ".")
	t.Category, t.Generation = scheme(t.Family)
	return t
}

// scheme returns the category and generation encoded in the name of a family. In u-6tb1 the first digits are a size
// and the last the generation, as in Karpenter's labels; in u7i-12tb the size follows.
func scheme(family string) (category string, generation int) {
	name := family
	if letter, rest, ok := strings.Cut(family, "-"); ok && letter == "u" {
		_, name, _ = strings.Cut(rest, "tb")
		name = letter + name
	}
	digit := strings.IndexAny(name, "0123456789")
	if digit < 0 {
		return name, 0
	}
	return name[:digit], int(name[digit] - '0')
}

// readDevice parses "manufacturer:name:count:number each".
func readDevice(s string) (Device, int) {
	f := strings.Split(s, ":")
	if len(f) != 4 {
		return Device{}, 0
	}
	return Device{Manufacturer: f[0], Name: f[1], Count: whole(f[2])}, whole(f[3])
}

func (t *table) addOffer(current *Type, f []string) {
	r := t.regions[f[1]]
	if r == nil {
		r = &Region{lists: map[string][]Zone{}, byType: map[string]*Offer{}}
		t.regions[f[1]] = r
		t.regionNames = append(t.regionNames, f[1])
	}
	o := &Offer{
		Type: current, Zones: r.list(f[1], f[2]), OnDemand: int64(whole(f[3])), SpotAverage: int64(whole(f[5])),
		InterruptionRate: f[6],
	}
	if f[4] != "" {
		var prices []int64
		for _, p := range strings.Split(f[4], ",") {
			prices = append(prices, int64(whole(p)))
		}
		o.Spot = spread(prices, f[1], current.Name, len(o.Zones))
	}
	r.offers = append(r.offers, o)
	r.byType[current.Name] = o
}

func (t *table) finish() {
	slices.Sort(t.regionNames)
	for _, name := range t.regionNames {
		slices.SortFunc(t.regions[name].zones, func(a, b Zone) int { return strings.Compare(a.ID, b.ID) })
	}
}

func whole(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
