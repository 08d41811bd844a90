//go:build !noplane

package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/nodeless/nodeless/cmd/internal/program"
	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/explain/capture"
	"github.com/nodeless/nodeless/migrate"
	"github.com/nodeless/nodeless/migrate/fromaws"
	"github.com/nodeless/nodeless/migrate/fromcluster"
)

// text is an input that can be read several times.
type text struct {
	migrate.Input
	bytes []byte
}

type texts []text

func (ts *texts) add(in migrate.Input) error {
	b, err := io.ReadAll(in.Reader)
	if err != nil {
		return fmt.Errorf("%s: %w", in.Name, err)
	}
	*ts = append(*ts, text{in, b})
	return nil
}

// migrated migrates the texts.
func (ts texts) migrated(o migrate.Options) (*migrate.Result, error) {
	var inputs []migrate.Input
	for _, t := range ts {
		in := t.Input
		in.Reader = bytes.NewReader(t.bytes)
		inputs = append(inputs, in)
	}
	return migrate.Run(inputs, o)
}

// find finds the cluster that the flags refer to; nil if they refer to none.
func (o *options) find() (*target.Cluster, error) {
	if !o.fromCluster && !o.fromAWS && !o.apply {
		return nil, nil
	}
	t, err := o.cluster.Find()
	if err != nil && o.fromAWS && !o.fromCluster && !o.apply && o.clusterName != "" {
		return &target.Cluster{}, nil // only AWS is asked
	}
	return t, err
}

// inputs reads files, the cluster and AWS.
func (o *options) inputs(cmd *cobra.Command, t *target.Cluster) (texts, error) {
	var out texts
	for _, name := range o.files {
		files, err := program.ManifestFiles(name)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if err := out.addFile(cmd.InOrStdin(), file); err != nil {
				return nil, err
			}
		}
	}
	if o.fromCluster {
		in, err := fromcluster.Read(cmd.Context(), t.REST)
		var forbidden *fromcluster.ForbiddenError
		if err != nil && !errors.As(err, &forbidden) {
			err = capture.ExplainUnreachable(t.REST.Host, err)
		}
		if err != nil {
			return nil, fmt.Errorf("--from-cluster: %w", err)
		}
		if err := out.add(in); err != nil {
			return nil, err
		}
	}
	if o.fromAWS {
		in, err := o.askAWS(cmd.Context(), t)
		if err != nil {
			return nil, fmt.Errorf("--from-aws: %w", err)
		}
		return out, out.add(in)
	}
	return out, nil
}

func (ts *texts) addFile(stdin io.Reader, file string) error {
	if file == "-" {
		return ts.add(migrate.Input{Name: "stdin", Reader: stdin})
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return ts.add(migrate.Input{Name: file, Reader: f})
}

func (o *options) askAWS(ctx context.Context, t *target.Cluster) (migrate.Input, error) {
	name, cfg, err := t.AtAWS(ctx, o.clusterName, o.region)
	if err != nil {
		return migrate.Input{}, err
	}
	return fromaws.Read(ctx, cfg, name)
}
