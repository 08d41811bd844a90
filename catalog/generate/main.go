// Command generate regenerates the catalogue's data file from the Go modules that have the facts:
//
//	go -C catalog/generate run -mod=mod .
//
// It is a separate module, so that the 96 MB of price data never enter the product's module graph. The output depends
// only on the modules' versions: the same versions give the same bytes.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const output = "../data.tsv.gz"

const (
	infoModule      = "github.com/LeanerCloud/ec2-instances-info"
	karpenterModule = "github.com/aws/karpenter-provider-aws"
)

// Files of karpenterModule: on-demand prices of us-east-1, newer than the other data, and sustained network bandwidths.
const (
	pricesFile    = "/pkg/providers/pricing/zz_generated.pricing_aws.go"
	bandwidthFile = "/pkg/providers/instancetype/zz_generated.bandwidth.go"
)

// origin is the first line of the data file.
const origin = "ec2-instances-info v0.0.0-20250528091325 (types, prices, spot: 2025-05-28), " +
	"karpenter-provider-aws v1.14.1 (us-east-1 on-demand: 2026-07-06; sustained bandwidth), " +
	"amazon-vpc-resource-controller-k8s v1.8.2 (network interfaces: 2026-09-02)"

func main() {
	log.SetFlags(0)
	instances, err := readInstances()
	if err != nil {
		log.Fatal(err)
	}
	prices, err := karpenterTable(pricesFile)
	if err != nil {
		log.Fatal(err)
	}
	bandwidth, err := karpenterTable(bandwidthFile)
	if err != nil {
		log.Fatal(err)
	}
	var text bytes.Buffer
	kept, left := write(&text, instances, prices, bandwidth)
	var file bytes.Buffer
	z, err := gzip.NewWriterLevel(&file, gzip.BestCompression)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := z.Write(text.Bytes()); err != nil {
		log.Fatal(err)
	}
	if err := z.Close(); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(output, file.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d types, %d left out, %d bytes (%d uncompressed)\n", kept, left, file.Len(), text.Len())
}

// readInstances reads the data file of the ec2-instances-info module from the module cache.
func readInstances() ([]instance, error) {
	dir, err := moduleDir(infoModule)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(dir + "/data/instances.json")
	if err != nil {
		return nil, err
	}
	var instances []instance
	if err := json.Unmarshal(data, &instances); err != nil {
		return nil, fmt.Errorf("read instances.json: %w", err)
	}
	slices.SortFunc(instances, func(a, b instance) int { return strings.Compare(a.Name, b.Name) })
	return instances, nil
}

// karpenterTable reads a table of numbers by type name from a Go file of Karpenter's provider. It reads the file as
// text: compiling its package would pull in most of Karpenter.
func karpenterTable(file string) (map[string]float64, error) {
	dir, err := moduleDir(karpenterModule)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(dir + file)
	if err != nil {
		return nil, err
	}
	numbers := map[string]float64{}
	for _, m := range regexp.MustCompile(`"([a-z0-9-]+\.[a-z0-9-]+)": +([0-9.]+)`).FindAllStringSubmatch(string(data),
		-1) {
		if n, err := strconv.ParseFloat(m[2], 64); err == nil {
			numbers[m[1]] = n
		}
	}
	if len(numbers) < 1000 {
		return nil, fmt.Errorf("only %d numbers in %s%s: has its form changed?", len(numbers), dir, file)
	}
	return numbers, nil
}

// moduleDir returns the directory of a module in the module cache.
func moduleDir(module string) (string, error) {
	if out, err := exec.Command("go", "mod", "download", module).CombinedOutput(); err != nil {
		return "", fmt.Errorf("download %s: %w: %s", module, err, out)
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("find module %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}
