package logs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/nodeless/nodeless/microvm/logs/pipeline"
)

// awsError is the code of an AWS API's error. Its message is not kept: it may repeat what was sent.
type awsError struct{ code string }

func (e *awsError) Error() string { return e.code }

// callAWS sends a delivery to AWS. If its target does not exist, callAWS creates it and sends the delivery again.
func (r *Router) callAWS(ctx context.Context, d pipeline.Delivery) ([]byte, error) {
	if r.o.AWS == nil {
		return nil, errors.New("there is no AWS")
	}
	answer, err := r.invoke(ctx, *d.Call)
	if isCode(err, "ResourceNotFoundException") {
		for _, c := range d.Create {
			if _, err := r.invoke(ctx, c); err != nil && !isCode(err, "ResourceAlreadyExistsException") {
				return nil, err
			}
		}
		answer, err = r.invoke(ctx, *d.Call)
	}
	if isCode(err, finalCodes...) {
		return nil, &refusal{err.Error()}
	}
	return answer, err
}

// finalCodes are the errors caused by the request's content.
var finalCodes = []string{"InvalidParameterException", "SerializationException", "ValidationException"}

func isCode(err error, codes ...string) bool {
	e, ok := errors.AsType[*awsError](err)
	return ok && slices.Contains(codes, e.code)
}

// invoke makes one signed call of AWS's JSON protocol.
func (r *Router) invoke(ctx context.Context, c pipeline.Call) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.o.AWS.Endpoint+"/", bytes.NewReader(c.Body))
	if err != nil {
		return nil, errors.New("its URL cannot be used")
	}
	request.Header.Set("Content-Type", "application/x-amz-json-1.1")
	request.Header.Set("X-Amz-Target", c.Target)
	request.Header.Set("User-Agent", "nodeless")
	sum := sha256.Sum256(c.Body)
	err = v4.NewSigner().SignHTTP(ctx, r.o.AWS.Credentials, request, hex.EncodeToString(sum[:]), c.Service, r.o.AWS.Region,
		time.Now())
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	answer, err := r.safe.Do(request)
	if err != nil {
		return nil, cause(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if answer.StatusCode == http.StatusOK {
		return body, nil
	}
	var said struct {
		Type string `json:"__type"`
	}
	_ = json.Unmarshal(body, &said) // if this fails, the status code serves
	code := said.Type[strings.LastIndex(said.Type, "#")+1:]
	if code == "" {
		code = fmt.Sprintf("%d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	}
	return nil, &awsError{code}
}
