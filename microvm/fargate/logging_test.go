package fargate

import (
	"strings"
	"testing"
)

const goodOutput = "[OUTPUT]\n    Name cloudwatch_logs\n    Match   *\n    region us-east-1\n"

func TestLoggingConfigurations(t *testing.T) {
	for name, c := range map[string]struct {
		data map[string]string
		want string // "" = accepted
	}{
		"the guide's example": {map[string]string{
			"flb_log_cw":   "false",
			"filters.conf": "[FILTER]\n    Name parser\n    Match *\n    Key_name log\n    Parser crio\n[FILTER]\n    Name kubernetes\n    Match kube.*\n    Merge_Log On\n",
			"output.conf":  goodOutput,
			"parsers.conf": "[PARSER]\n    Name crio\n    Format Regex\n    Regex ^(?<time>[^ ]+) (?<log>.*)$\n",
		}, ""},
		"comments and empty lines":     {map[string]string{"output.conf": "# mine\n\n" + goodOutput}, ""},
		"an output that needs no AWS":  {map[string]string{"output.conf": "[OUTPUT]\n  Name loki\n  Match *\n"}, ""},
		"names are not case sensitive": {map[string]string{"output.conf": "[output]\n  NAME Stdout\n  MATCH *\n"}, ""},
		"5,300 characters": {map[string]string{"output.conf": goodOutput + "#" +
			strings.Repeat("é", 5300-len(goodOutput)-1)}, ""},
		"one more": {map[string]string{"output.conf": goodOutput + "#" +
			strings.Repeat("é", 5300-len(goodOutput))}, "5301 characters, 5300 are allowed"},
		"no output": {
			map[string]string{"filters.conf": "[FILTER]\n  Name grep\n  Match *\n"},
			"output.conf has no [OUTPUT] section",
		},
		"nothing": {nil, "output.conf has no [OUTPUT] section"},
		"a section that is Fargate's": {
			map[string]string{"output.conf": "[SERVICE]\n  Flush 1\n" + goodOutput},
			"output.conf line 1: section [SERVICE] is not supported in output.conf, only [OUTPUT] is",
		},
		"an input": {
			map[string]string{"output.conf": goodOutput + "[INPUT]\n    Name tail\n"},
			"section [INPUT] is not supported",
		},
		"a section under another's key": {
			map[string]string{"output.conf": goodOutput, "filters.conf": goodOutput},
			"filters.conf line 1: section [OUTPUT] is not supported in filters.conf",
		},
		"an unknown key": {
			map[string]string{"output.conf": goodOutput, "service.conf": ""},
			"service.conf is not a supported key",
		},
		"an output nobody has": {
			map[string]string{"output.conf": "[OUTPUT]\n  Name amazon_data_firehose\n  Match *\n"},
			"amazon_data_firehose is not a supported output plugin",
		},
		"a filter nobody has": {map[string]string{
			"output.conf":  goodOutput,
			"filters.conf": "[FILTER]\n  Name lua\n  Match *\n",
		}, "lua is not a supported filter plugin"},
		"no match": {
			map[string]string{"output.conf": "[OUTPUT]\n  Name stdout\n"},
			"output.conf line 1: [OUTPUT] needs the key match",
		},
		"a parser without format": {map[string]string{
			"output.conf":  goodOutput,
			"parsers.conf": "[PARSER]\n  Name x\n",
		}, "needs the key format"},
		"the environment": {
			map[string]string{"output.conf": goodOutput + "    password ${SECRET}\n"},
			"environment variables such as ${SECRET} are not supported",
		},
		"what the kubernetes filter owns": {
			map[string]string{
				"output.conf":  goodOutput,
				"filters.conf": "[FILTER]\n  Name kubernetes\n  Match *\n  Kube_URL https://evil\n",
			},
			"kube_url of the filter kubernetes cannot be set",
		},
		"uneven keys": {
			map[string]string{"output.conf": "[OUTPUT]\n  Name stdout\n   Match *\n"},
			"output.conf line 3: keys must be indented alike",
		},
		"keys no deeper than their section": {
			map[string]string{"output.conf": " [OUTPUT]\n Name stdout\n"},
			"a key must be indented deeper than its section",
		},
		"uneven sections": {map[string]string{"output.conf": goodOutput +
			" [OUTPUT]\n    Name stdout\n    Match *\n"}, "sections must be indented alike"},
		"a key before any section": {
			map[string]string{"output.conf": "  Name stdout\n"},
			"the key Name stands before any section",
		},
		"an include": {
			map[string]string{"output.conf": "@INCLUDE /etc/passwd\n"},
			"commands such as @INCLUDE are not supported",
		},
		"flb_log_cw": {
			map[string]string{"output.conf": goodOutput, "flb_log_cw": "yes"},
			`flb_log_cw is "yes"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			sections, err := ParseLogging(c.data)
			switch {
			case c.want == "" && (err != nil || len(sections) == 0):
				t.Errorf("got %v, %v", sections, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
