package pipeline

import (
	"strings"
	"testing"

	"github.com/nodeless/nodeless/microvm/fargate"
)

// plugin is a plugin of Fluent Bit, with the options that its manual documents (Fluent Bit manual 4.0, Data
// Pipeline), apart from those common to all outputs.
type plugin struct {
	base    string // lines that it always needs
	options string // options that are implemented, or accepted since they change nothing here: "KEY VALUE", one per line
	refused string // options that are rejected by name; on Fargate too, if marked with !
	absent  bool   // the plugin is rejected whatever its options are
}

// filterPlugins are the filters that Fargate accepts (EKS User Guide, fargate-logging).
var filterPlugins = map[string]plugin{
	"grep": {base: "Regex log x", options: "Exclude log x\nLogical_Op and"},
	"parser": {
		base: "Key_Name log\nParser crio", options: "Preserve_Key On\nReserve_Data On",
		refused: "Unescape_Key On\nNested_Keys On",
	},
	"record_modifier": {
		options: "Record a b\nRemove_key a\nAllowlist_key a\nWhitelist_key a", refused: "Uuid_key a",
	},
	"modify": {
		options: "Set a b\nAdd a b\nRemove a\nRemove_wildcard a\nRemove_regex a\nRename a b\nHard_rename a b\nCopy a b\n" +
			"Hard_copy a b\nCondition Key_exists a\nCondition Key_value_matches a b",
		refused: "Move_to_start a\nMove_to_end a\nCondition A_key_matches a\nCondition No_key_matches a\n" +
			"Condition Matching_keys_have_matching_values a b",
	},
	"nest": {base: "Operation nest\nNest_under k\nWildcard a*", options: "Add_prefix a\nRemove_prefix a"},
	"kubernetes": {
		options: "Merge_Log On\nMerge_Log_Key a\nMerge_Log_Trim On\nMerge_Parser crio\nKeep_Log Off\nK8S-Logging.Parser On\n" +
			"K8S-Logging.Exclude On\nLabels Off\nAnnotations Off\nBuffer_Size 0\nKube_Meta_Cache_TTL 30m\n" +
			"Kube_Meta_Preload_Cache_Dir /x\nKube_Tag_Prefix kube.\nUse_Journal Off\nUse_Kubelet Off\nRegex_Parser crio\nDummy_Meta Off",
		refused: "!Kube_URL https://x\n!Kube_CA_File /x\n!Kube_Token_File /x\n!Kube_Token_Command x\n" +
			"Owner_References On\nNamespace_Labels On\nNamespace_Annotations On",
	},
	"throttle":    {absent: true},
	"rewrite_tag": {absent: true},
}

// parserPlugins are the formats of parsers, and their options.
var parserPlugins = map[string]plugin{
	"json": {
		options: "Time_Key t\nTime_Keep On\nTypes a:integer",
		refused: "Time_Offset +0200\nTime_Strict Off\nTime_System_Timezone On\nDecode_Field json a\nDecode_Field_As json a",
	},
	"regex": {
		base: "Regex ^(?<a>.*)$", options: "Time_Key a\nTypes a:float", refused: "Skip_Empty_Values Off",
	},
	"ltsv":   {absent: true},
	"logfmt": {absent: true},
}

// outputPlugins are the outputs that Fargate accepts, and those that Nodeless adds.
var outputPlugins = map[string]plugin{
	"cloudwatch_logs": {
		base: "region r\nlog_group_name g\nlog_stream_prefix p",
		options: "log_key log\nauto_create_group On\nlog_retention_days 7\nlog_format json/emf\nlog_group_class STANDARD\n" +
			"auto_retry_requests On\nRetry_Limit 3\nworkers 1",
		refused: "log_group_template a\nlog_stream_template a\nrole_arn a\nendpoint a\nsts_endpoint a\nexternal_id a\nprofile a\n" +
			"metric_namespace a\nmetric_dimensions a",
	},
	"es": {
		options: "Host h\nPort 1\nPath /p\nCompress gzip\nPipeline p\nHTTP_User u\nHTTP_Passwd p\nIndex i\nType t\n" +
			"Logstash_Format On\nLogstash_Prefix p\nLogstash_Prefix_Key p\nLogstash_DateFormat %Y\nTime_Key t\n" +
			"Time_Key_Format %Y\nTime_Key_Nanos On\nInclude_Tag_Key On\nTag_Key t\nGenerate_ID On\nWrite_Operation index\n" +
			"Replace_Dots On\nTrace_Output On\nTrace_Error On\nCurrent_Time_Index On\nSuppress_Type_Name On\nBuffer_Size 1\n" +
			"AWS_Region r\nLogstash_Prefix_Separator -",
		refused: "Cloud_ID a\nCloud_Auth a\nId_Key a\nHTTP_API_Key a",
	},
	"opensearch": {options: "Host h\nIndex i", refused: "Id_Key a"},
	"http": {
		base: "Format json",
		options: "Host h\nPort 1\nURI /u\nCompress gzip\nHeader a b\nHeader_Tag t\nHTTP_User u\nHTTP_Passwd p\n" +
			"json_date_key d\njson_date_format iso8601",
		refused: "Proxy http://p\nBody_Key $a\nHeaders_Key $a\nGelf_Timestamp_Key a\nLog_Response_Payload On\nHTTP_Method PUT",
	},
	"loki": {
		options: "Host h\nPort 1\nURI /u\nTLS Off\nHTTP_User u\nHTTP_Passwd p\nTenant_ID t\nBearer_Token b\nLabels a=b\n" +
			"Label_Keys $a\nRemove_Keys a\nLine_Format key_value\nAuto_Kubernetes_Labels On\nDrop_Single_Key On\nHeader a b",
		refused: "Tenant_ID_Key a\nLabel_Map_Path /x\nStructured_Metadata a=b",
	},
	"file": {
		options: "Path p\nFile f\nFormat plain\nMkdir On", refused: "Delimiter ,\nLabel_Delimiter :\nTemplate t",
	},
	"stdout":           {options: "Format json_lines\njson_date_key d\njson_date_format epoch"},
	"firehose":         {absent: true},
	"kinesis_firehose": {absent: true},
	"kinesis":          {absent: true},
}

func TestWhichPluginsAndOptionsOfFluentBitAreCarriedOut(t *testing.T) {
	for _, kind := range []struct {
		file, section, nameKey, match string
		plugins                       map[string]plugin
		refusal                       string // of a plugin
	}{
		{"filters.conf", "FILTER", "Name", "Match *", filterPlugins, " is not supported; use "},
		{"parsers.conf", "PARSER", "Format", "Name p", parserPlugins, "format is none of json, regex"},
		{"output.conf", "OUTPUT", "Name", "Match *", outputPlugins, " needs AWS and is not supported here"},
	} {
		for name, p := range kind.plugins {
			compiled := func(option string) error {
				lines := strings.Split(strings.TrimSuffix(p.base+"\n"+option, "\n"), "\n")
				lines = append([]string{kind.nameKey + " " + name, kind.match}, lines...)
				data := map[string]string{"output.conf": toStdout, "parsers.conf": crio}
				text := "[" + kind.section + "]\n    " + strings.Join(lines, "\n    ") + "\n"
				if kind.file == "parsers.conf" {
					data[kind.file] += text
				} else {
					data[kind.file] = text
				}
				sections, err := fargate.ParseLogging(data)
				if err == nil {
					_, err = New(sections, fargate.Abilities{CloudWatch: true})
				}
				return err
			}
			if p.absent {
				if err := compiled(""); err == nil || !strings.Contains(err.Error(), kind.refusal) {
					t.Errorf("%s %s: %v, want %q", kind.section, name, err, kind.refusal)
				}
				continue
			}
			for option := range strings.SplitSeq(p.options, "\n") {
				if err := compiled(option); err != nil {
					t.Errorf("%s %s, %s: %v", kind.section, name, option, err)
				}
			}
			for option := range strings.SplitSeq(p.refused, "\n") {
				option, byFargate := strings.CutPrefix(option, "!")
				key, _, _ := strings.Cut(strings.ToLower(option), " ")
				err := compiled(option)
				switch {
				case option == "":
				case err == nil:
					t.Errorf("%s %s takes %s", kind.section, name, option)
				case !strings.Contains(strings.ToLower(err.Error()), key),
					!byFargate && !strings.HasSuffix(err.Error(), " is not supported"):
					t.Errorf("%s %s, %s: %v", kind.section, name, option, err)
				}
			}
		}
	}
}
