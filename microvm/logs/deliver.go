package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"

	"github.com/nodeless/nodeless/microvm/logs/pipeline"
)

// maxAnswer is how many bytes of an answer are read.
const maxAnswer = 4 << 20

// deliver sends records to an output. It returns the records to send again, with an error that says why, and how many
// were refused for good. Errors contain no path, no header and nothing of an answer's body, since these may hold
// secrets.
func (r *Router) deliver(ctx context.Context, out *pipeline.Output,
	records []*pipeline.Record,
) (again []*pipeline.Record, refused int, err error) {
	deliveries, err := out.Encode(records)
	if err != nil {
		return nil, len(records), nil //nolint:nilerr // it would fail again
	}
	for i, d := range deliveries {
		if d.File != "" {
			if err := r.files.append(d.File, d.Body); err != nil {
				return rest(records, deliveries[i:]), refused, err
			}
			continue
		}
		answer, err := r.send(ctx, out, d)
		var bad *refusal
		if errors.As(err, &bad) {
			r.o.Log.Warn("an output refused records", "output", out.String(), "to", out.To, "status", bad.status,
				"records", d.Records)
			refused += d.Records
			continue
		}
		if err != nil {
			return rest(records, deliveries[i:]), refused, err
		}
		indexes, rejected, why := out.Answer(answer, d.Records)
		if rejected > 0 {
			r.o.Log.Warn("an output refused records", "output", out.String(), "to", out.To, "first", why, "records", rejected)
		}
		if len(indexes) > 0 {
			for _, i := range indexes {
				again = append(again, records[i])
			}
			return again, refused + rejected, fmt.Errorf("%d of %d records were not taken: %s", len(indexes), len(records), why)
		}
		refused += rejected
	}
	return nil, refused, nil
}

// rest returns the records of deliveries.
func rest(records []*pipeline.Record, deliveries []pipeline.Delivery) []*pipeline.Record {
	if deliveries[0].Of == nil { // one delivery has them all
		return records
	}
	var left []*pipeline.Record
	for _, d := range deliveries {
		for _, i := range d.Of {
			left = append(left, records[i])
		}
	}
	return left
}

func (r *Router) send(ctx context.Context, out *pipeline.Output, d pipeline.Delivery) ([]byte, error) {
	if d.Call != nil {
		return r.callAWS(ctx, d)
	}
	return r.post(ctx, out, d)
}

// refusal is an answer that a retry would get again.
type refusal struct{ status string }

func (e *refusal) Error() string { return e.status }

// final are the status codes caused by the request's content.
var final = []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity}

func (r *Router) post(ctx context.Context, out *pipeline.Output, d pipeline.Delivery) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL, bytes.NewReader(d.Body))
	if err != nil {
		return nil, errors.New("its URL cannot be used")
	}
	request.Header = d.Header
	request.Header.Set("User-Agent", "nodeless")
	if host := d.Header.Get("Host"); host != "" {
		request.Host = host
	}
	client := r.safe
	if out.Insecure {
		client = r.insecure
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, cause(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	status := fmt.Sprintf("%d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	switch {
	case slices.Contains(final, answer.StatusCode):
		return nil, &refusal{status}
	case answer.StatusCode < 200 || answer.StatusCode > 299:
		return nil, errors.New(status)
	case err != nil:
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return body, nil
}

// cause returns why a request failed. It leaves out the URL, which may hold secrets, and addresses, which differ
// between attempts.
func cause(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		err = of.Err
	}
	for {
		of, ok := errors.AsType[*net.OpError](err)
		if !ok {
			return err
		}
		err = of.Err
	}
}
