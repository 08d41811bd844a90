package pipeline

import (
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/microvm/fargate"
)

const (
	toStdout = "[OUTPUT]\n    Name stdout\n    Match *\n"
	// crio is the parser of the EKS User Guide's example.
	crio  = "[PARSER]\n    Name crio\n    Format Regex\n    Regex ^(?<time>[^ ]+) (?<stream>stdout|stderr) (?<logtag>P|F) (?<log>.*)$\n    Time_Key time\n    Time_Format %Y-%m-%dT%H:%M:%S.%L%z\n"
	parse = "[FILTER]\n    Name parser\n    Match *\n    Key_name log\n    Parser crio\n"
)

var (
	at   = time.Date(2026, 11, 22, 16, 0, 0, 123456789, time.UTC)
	from = &Source{
		Namespace: "shop", Pod: "web-1", UID: "u1", Node: "fargate-ip-10-0-0-1", IP: "10.0.0.1", Container: "app",
		Image:  "shop/web:1",
		Labels: map[string]string{"app.kubernetes.io/name": "web", "app": "web"}, Annotations: map[string]string{"note": "x"},
	}
)

func compile(t *testing.T, data map[string]string) (*Pipeline, error) {
	t.Helper()
	if data["output.conf"] == "" {
		data["output.conf"] = toStdout
	}
	sections, err := fargate.ParseLogging(data)
	if err != nil {
		t.Fatal(err)
	}
	return New(sections, fargate.Abilities{})
}

// through returns the record of a line as JSON, "" if it is dropped.
func through(t *testing.T, p *Pipeline, text string) string {
	t.Helper()
	r := p.Line(from, at, at.Format("2006-01-02T15:04:05.000000000Z07:00")+" stdout F "+text)
	if r == nil {
		return ""
	}
	b, err := jsonLine(r.Fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func filterOf(lines ...string) string {
	return "[FILTER]\n    " + strings.Join(lines, "\n    ") + "\n"
}

func TestFilters(t *testing.T) {
	const stamp = "2026-11-22T16:00:00.123456789Z"
	for name, c := range map[string]struct {
		filters, parsers, line, want string
	}{
		"none: the line as a node stores it": {"", "", "hello", `{"log":"` + stamp + ` stdout F hello"}`},
		"the guide's parser": {
			parse, crio, "hello <b>",
			`{"log":"hello <b>","logtag":"F","stream":"stdout"}`,
		},
		"a parser that does not fit": {
			filterOf("Name parser", "Match *", "Key_Name log", "Parser j"),
			"[PARSER]\n Name j\n Format json\n", "x", `{"log":"` + stamp + ` stdout F x"}`,
		},
		"another tag": {
			filterOf("Name grep", "Match host.*", "Regex log never"), "", "x",
			`{"log":"` + stamp + ` stdout F x"}`,
		},
		"grep keeps": {
			parse + filterOf("Name grep", "Match kube.*", "Regex log ^err"), crio,
			"error", `{"log":"error","logtag":"F","stream":"stdout"}`,
		},
		"grep drops": {
			parse + filterOf("Name grep", "Match kube.*", "Regex log ^err"), crio,
			"fine", "",
		},
		"grep excludes": {parse + filterOf("Name grep", "Match *web-1_shop_app*",
			"Exclude $log /health/"), crio, "GET /healthz", ""},
		"grep, all of them": {parse + filterOf("Name grep", "Match *", "Logical_Op and",
			"Exclude log a", "Exclude log b"), crio, "only a", `{"log":"only a","logtag":"F","stream":"stdout"}`},
		"grep, any of them": {parse + filterOf("Name grep", "Match *", "Logical_Op or",
			"Exclude log a", "Exclude log b"), crio, "only a", ""},
		"grep on what the kubernetes filter has": {filterOf("Name kubernetes", "Match *") + filterOf("Name grep",
			"Match *", "Exclude $kubernetes['labels']['app'] ^web$"), "", "x", ""},
		"record_modifier": {parse + filterOf("Name record_modifier", "Match *",
			"Record cluster demo one", "Remove_key stream"), crio, "x", `{"cluster":"demo one","log":"x","logtag":"F"}`},
		"record_modifier, allowed keys": {parse + filterOf("Name record_modifier", "Match *",
			"Allowlist_key log"), crio, "x", `{"log":"x"}`},
		"modify": {
			parse + filterOf("Name modify", "Match *", "Condition Key_Value_Equals stream stdout",
				"Rename log message", "Remove logtag", "Add stream no", "Set env prod", "Hard_copy env stream"),
			crio, "x", `{"env":"prod","message":"x","stream":"prod"}`,
		},
		"modify, a condition that is not true": {parse + filterOf("Name modify", "Match *", "Condition Key_exists none",
			"Remove log"), crio, "x", `{"log":"x","logtag":"F","stream":"stdout"}`},
		"modify, patterns": {parse + filterOf("Name modify", "Match *", "Remove_wildcard log",
			"Remove_regex ^str"), crio, "x", `{}`},
		"nest": {parse + filterOf("Name nest", "Match *", "Operation nest",
			"Wildcard lo*", "Nest_under cri"), crio, "x", `{"cri":{"log":"x","logtag":"F"},"stream":"stdout"}`},
		"lift": {
			parse + filterOf("Name nest", "Match *", "Operation nest", "Wildcard lo*",
				"Nest_under cri") + filterOf("Name nest", "Match *", "Operation lift", "Nested_under cri", "Add_prefix c_"),
			crio, "x", `{"c_log":"x","c_logtag":"F","stream":"stdout"}`,
		},
		"types, and the other values kept": {
			parse + filterOf("Name parser", "Match *", "Key_Name log", "Parser kv",
				"Reserve_Data On"),
			crio + "[PARSER]\n    Name kv\n    Format regex\n    Regex ^(?<code>\\d+) (?<took>\\S+) (?<ok>\\S+)$\n    Types code:integer took:float ok:bool\n", "200 1.5 true",
			`{"code":200,"logtag":"F","ok":true,"stream":"stdout","took":1.5}`,
		},
		"JSON within a line": {
			parse + filterOf("Name parser", "Match *", "Key_Name log", "Parser j", "Preserve_Key On"),
			crio + "[PARSER]\n    Name j\n    Format json\n", `{"n":12345678901234567890}`,
			`{"log":"{\"n\":12345678901234567890}","n":12345678901234567890}`,
		},
		"kubernetes": {
			parse + filterOf("Name kubernetes", "Match kube.*", "Merge_Log On", "Keep_Log Off", "Labels Off",
				"Annotations Off", "Kube_Meta_Cache_TTL 300s"), crio, `{"level":"info"}`,
			`{"kubernetes":{"container_image":"shop/web:1","container_name":"app","docker_id":"` +
				from.Tag()[len("kube.var.log.containers.web-1_shop_app-"):len(from.Tag())-4] +
				`","host":"fargate-ip-10-0-0-1","namespace_name":"shop","pod_id":"u1","pod_ip":"10.0.0.1","pod_name":"web-1"},"level":"info","logtag":"F","stream":"stdout"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := compile(t, map[string]string{"filters.conf": c.filters, "parsers.conf": c.parsers})
			if err != nil {
				t.Fatal(err)
			}
			if got := through(t, p, c.line); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestATimeInALineIsTheRecords(t *testing.T) {
	p, err := compile(t, map[string]string{"filters.conf": parse, "parsers.conf": crio})
	if err != nil {
		t.Fatal(err)
	}
	if r := p.Line(from, at.Add(time.Hour), at.Format(time.RFC3339Nano)+" stderr P x"); !r.Time.Equal(at) {
		t.Errorf("got %s, want %s", r.Time, at)
	}
}

func TestAPodMayKeepItsLinesToItself(t *testing.T) {
	own := *from
	own.Annotations = map[string]string{"fluentbit.io/exclude": "true"}
	for option, want := range map[string]bool{"On": false, "Off": true} {
		p, err := compile(t, map[string]string{"filters.conf": filterOf("Name kubernetes", "Match *",
			"K8S-Logging.Exclude "+option)})
		if err != nil {
			t.Fatal(err)
		}
		if r := p.Line(&own, at, "x"); (r != nil) != want {
			t.Errorf("K8S-Logging.Exclude %s: %v", option, r)
		}
	}
}

// Unsupported sections are reported with their location, and without values that may be secret.
func TestWhatCannotBeCarriedOut(t *testing.T) {
	for name, c := range map[string]struct {
		data map[string]string
		want string
	}{
		"a filter that is not here": {
			map[string]string{"filters.conf": filterOf("Name throttle", "Match *")},
			"filters.conf line 1: filter throttle is not supported",
		},
		"a key that is not known": {map[string]string{"filters.conf": filterOf("Name grep", "Match *",
			"Regex log x", "Colour s3cret")}, "filters.conf line 1: grep: the key colour is not supported"},
		"an expression of another kind": {map[string]string{"filters.conf": filterOf("Name grep", "Match *",
			"Regex log (?=x)")}, "is not a regular expression of the RE2 kind"},
		"a parser that is missing": {
			map[string]string{"filters.conf": parse},
			"there is no [PARSER] with the name crio",
		},
		"a format of parsers": {
			map[string]string{"parsers.conf": "[PARSER]\n    Name l\n    Format ltsv\n"},
			"parsers.conf line 1: l: format is none of json, regex",
		},
		"a time that is not known": {map[string]string{"parsers.conf": "[PARSER]\n    Name l\n    Format json\n    Time_Key t\n    Time_Format %s\n"}, "%s is not known"},
		"msgpack":                  {map[string]string{"output.conf": "[OUTPUT]\n    Name http\n    Match *\n    HTTP_User u\n    HTTP_Passwd s3cret\n"}, "use json, json_lines or json_stream"},
		"a port":                   {map[string]string{"output.conf": "[OUTPUT]\n    Name loki\n    Match *\n    Port 70000\n    Bearer_Token s3cret\n"}, "port is not a number from 1 to 65535"},
		"a host with a password":   {map[string]string{"output.conf": "[OUTPUT]\n    Name es\n    Match *\n    Host me:s3cret@there/x\n"}, "Host is not a host name or address"},
		"AWS alone": {
			map[string]string{"output.conf": "[OUTPUT]\n    Name firehose\n    Match *\n"},
			"output plugin firehose needs AWS",
		},
		"a file of the machine's": {map[string]string{"output.conf": "[OUTPUT]\n    Name loki\n    Match *\n    tls On\n    tls.key_passwd s3cret\n"}, "the key tls.key_passwd is not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := compile(t, c.data)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("a secret is told: %v", err)
			}
		})
	}
}

func TestPatternsOfTags(t *testing.T) {
	for pattern, want := range map[string]bool{
		"*": true, "kube.*": true, from.Tag(): true, "kube": false, "*_shop_*": true, "*_shop_*.log": true,
		"*.txt": false, "kube.*web*app*": true, "kube.*app*web*": false, "": false,
	} {
		if got := matcher(pattern)(from.Tag()); got != want {
			t.Errorf("%q: %v", pattern, got)
		}
	}
}

func FuzzConfigurations(f *testing.F) {
	f.Add(parse+filterOf("Name modify", "Match *", "Condition Key_Value_Matches a b", "Rename a b"), crio,
		"[OUTPUT]\n Name loki\n Match *\n labels a=$b['c'],d=e", `{"a":[1,{"b":null}]}`)
	f.Add(filterOf("Name kubernetes", "Match *", "Merge_Log On"), "",
		"[OUTPUT]\n Name es\n Match *\n Logstash_Format On\n Replace_Dots On", "x")
	f.Add(filterOf("Name nest", "Match *", "Operation lift", "Nested_under a"), "",
		"[OUTPUT]\n Name file\n Match *\n Path ../../..\n File ../x", "\xff")
	f.Fuzz(func(t *testing.T, filters, parsers, output, line string) {
		sections, err := fargate.ParseLogging(map[string]string{
			"filters.conf": filters, "parsers.conf": parsers,
			"output.conf": output,
		})
		if err != nil {
			return
		}
		p, err := New(sections, fargate.Abilities{})
		if err != nil {
			return
		}
		r := p.Line(from, at, line)
		for _, o := range p.Outputs {
			if r == nil || !o.Matches(r.Tag) {
				continue
			}
			all, err := o.Encode([]*Record{r})
			if err != nil || len(all) == 0 {
				t.Fatalf("%s: %v, %v", o, all, err)
			}
			for _, d := range all {
				if d.File != "" && d.File != StdoutFile && !strings.HasPrefix(d.File, "files/") ||
					strings.Contains("/"+d.File+"/", "/../") {
					t.Errorf("it would be written to %q", d.File)
				}
			}
		}
	})
}
