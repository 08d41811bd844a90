package localcluster

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
)

// awsKeysFile returns the file with the access key of a data directory's AWS account, in the format of
// ~/.aws/credentials. Anyone who has the key is an administrator of the cluster, as with the kubeconfig beside it.
func awsKeysFile(dir string) string { return filepath.Join(dir, "region", "credentials") }

// ToolsKubeconfig returns the kubeconfig for tools that write to it, such as `aws eks update-kubeconfig`; that of
// `nodeless up` stays as it is.
func ToolsKubeconfig(dir string) string { return filepath.Join(dir, "region", "kubeconfig") }

// KeepAWSKeys loads the access key of a data directory, and creates it the first time.
func KeepAWSKeys(dir string) (awssdk.Credentials, error) {
	keys, err := LoadAWSKeys(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return keys, err
	}
	random := make([]byte, 40)
	_, _ = rand.Read(random) // never fails since Go 1.24
	keys = awssdk.Credentials{
		AccessKeyID:     "AKIA" + base32.StdEncoding.EncodeToString(random[:10]),
		SecretAccessKey: base64.RawURLEncoding.EncodeToString(random[10:]),
	}
	path := awsKeysFile(dir)
	text := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", keys.AccessKeyID,
		keys.SecretAccessKey)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return keys, fmt.Errorf("folder of the AWS credentials: %w", err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return keys, fmt.Errorf("keep the AWS credentials: %w", err)
	}
	return keys, nil
}

// AWSCredentials returns the credentials with which programs sign requests to the region of the cluster in a data
// directory.
func AWSCredentials(dir string) awssdk.CredentialsProvider {
	return awssdk.CredentialsProviderFunc(func(context.Context) (awssdk.Credentials, error) { return LoadAWSKeys(dir) })
}

// LoadAWSKeys returns the AWS credentials of the cluster in a data directory.
func LoadAWSKeys(dir string) (awssdk.Credentials, error) {
	text, err := os.ReadFile(awsKeysFile(dir))
	if err != nil {
		return awssdk.Credentials{}, fmt.Errorf("read the AWS credentials: %w", err)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, "="); ok {
			values[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	keys := awssdk.Credentials{AccessKeyID: values["aws_access_key_id"], SecretAccessKey: values["aws_secret_access_key"]}
	if keys.AccessKeyID == "" || keys.SecretAccessKey == "" {
		return keys, fmt.Errorf("the AWS credentials in %s cannot be read; delete the file, and the next \"nodeless up\" "+
			"makes new ones", awsKeysFile(dir))
	}
	return keys, nil
}
