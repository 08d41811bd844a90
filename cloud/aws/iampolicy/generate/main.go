// Command generate prints iam.tf of the Terraform module in deploy/terraform.
package main

import (
	"fmt"
	"os"

	"github.com/nodeless/nodeless/cloud/aws/iampolicy"
)

func main() {
	text, err := iampolicy.Module()
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}
