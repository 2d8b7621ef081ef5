/* Calls whose parameters are tags. */
#ifndef TESTS_PROP_PARSE_CASES_TAGS_H
#define TESTS_PROP_PARSE_CASES_TAGS_H

#include "tests/prop/parse/cases.h"

KP_UNUSED static const struct parse_case
	tags_cases[] = {
		/* Qwen3-Coder */
		{ "qwen3_coder", NULL, 0, Q1, A_C },
		{ "qwen3_coder", NULL, 0, "Hm.\n\n" Q1 "\n" Q2, "C:Hm.\n" AB_C },
		{ "qwen3_coder", NULL, 0,
			"<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\nDone.",
			A_C "C:Done.\n" },
		{ "qwen3_coder", NULL, 0,
			"<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n<function=get_time>\n<parameter=tz>\nCET\n</parameter>\n</function>\n</tool_call>",
			AB_C },
		{ "qwen3_coder", NULL, 0, "<tool_call>\n<function=now>\n</function>\n</tool_call>",
			NOW },
		{ "qwen3_coder", NULL, 0, "<tool_call><function=now></function></tool_call>", NOW },
		{ "qwen3_coder", NULL, 0,
			"<tool_call>\n<function=get_weather>\n<parameter=city>\n\"a\" </parameter> b\n\n</parameter>\n</function>\n</tool_call>",
			"T:get_weather {\"city\":\"\\\"a\\\" </parameter> b\\n\"}\n" },
		{ "qwen3_coder", NULL, 0,
			"<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
			"T:get_weather {\"city\":\"Paris\",\"days\":3}\n" },
		{ "qwen3_coder", NULL, 0,
			"<tool_call>\n<function=get_weather>\n<parameter=city>\n<parameter=x>1\n</parameter>\n</function>\n</tool_call>",
			"T:get_weather {\"city\":\"<parameter=x>1\"}\n" },
		{ "qwen3_coder", NULL, 0,
			"<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</function>\n</tool_call>",
			A_C },
		{ "qwen3_coder", NULL, 0,
			"<tool_call>\n<function=get_weather>\n<parameter=city>\nParis", A_C },
		{ "qwen3_coder", NULL, 0,
			"<tool_call><function=get_weather><parameter=city>007</parameter><parameter=days>007</parameter><parameter=note>null</parameter></function></tool_call>",
			"T:get_weather {\"city\":\"007\",\"days\":\"007\",\"note\":\"null\"}\n" },
		{ "qwen3_coder", NULL, 0,
			"<tool_call><function=my-tool.v2><parameter=x>{'a': (1, None, True)}</parameter><parameter=l>[\"</parameter>\", 12345678901234567890]</parameter>"
			"<parameter=n>-1.50</parameter><parameter=b>True</parameter><parameter=o>null</parameter><parameter=i>007</parameter><parameter=r>2</parameter></function></tool_call>",
			"T:my-tool.v2 {\"x\":{\"a\":[1,null,true]},\"l\":[\"</parameter>\", 12345678901234567890],\"n\":-1.50,\"b\":true,\"o\":null,\"i\":\"007\",\"r\":2}\n" },
		{ "qwen3_coder", NULL, 0,
			"<tool_call><function=my-tool.v2><parameter=o>nullable</parameter><parameter=i>7</parameter><parameter=n></parameter><parameter=z>5</parameter></function></tool_call>",
			"T:my-tool.v2 {\"o\":\"nullable\",\"i\":7,\"z\":\"5\"}\n" },
		{ "qwen3_coder", "qwen3_thinking", 0, "hm</think>" Q1, "R:hm\n" A_C },
		{ "qwen3_coder", NULL, 0, "<tool_call>\nhello\n</tool_call>",
			"C:<tool_call>\nhello\n</tool_call>\n" },
		{ "qwen3_coder", NULL, 0, "<tool_call>\n<function=get_weather>\n<parameter=\nls",
			"T:get_weather {}\nC:<parameter=\nls\n" },
		{ "seed_oss", "seed_oss", 0,
			"<seed:think>hm</seed:think>\n<seed:tool_call>\n<function=get_weather>\n<parameter=city>Paris</parameter>\n</function>\n</seed:tool_call>",
			"R:hm\n" A_C },
		/* DeepSeek */
		{ "deepseek_v3", NULL, 0,
			"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"city\": \"Paris\"}\n```<｜tool▁call▁end｜>\n"
			"<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_time\n```json\n{\"tz\": \"CET\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
			AB },
		{ "deepseek_v31", "deepseek_v3", KP_PARSE_IN_TEXT,
			"Hm.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Paris\"}<｜tool▁call▁end｜>"
			"<｜tool▁call▁begin｜>get_time<｜tool▁sep｜>{\"tz\": \"CET\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
			"C:Hm.\n" AB },
		{ "deepseek_v32", "deepseek_v3", KP_PARSE_IN_THOUGHT,
			"hm</think>\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">Paris</｜DSML｜parameter>\n"
			"<｜DSML｜parameter name=\"days\" string=\"false\">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
			"<｜DSML｜invoke name=\"get_time\">\n<｜DSML｜parameter name=\"tz\" string=\"true\">CET</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
			"R:hm\nT:get_weather {\"city\":\"Paris\",\"days\":3}\nT:get_time {\"tz\":\"CET\"}\n" },
		{ "deepseek_v32", NULL, 0,
			"<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n{\"city\": \"Paris\"}\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
			A },
		{ "deepseek_v4", "deepseek_v4", KP_PARSE_IN_THOUGHT,
			"hm<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">2>&1</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
			"R:hm\nT:get_weather {\"city\":\"2>&1\"}\n" },
		{ "deepseek_v4", NULL, 0,
			"<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"get_weather\">\n<｜DSML｜ parameter name=\"city\" string=\"true\">Paris</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>",
			A_C },
		/* GLM, LongCat */
		{ "glm45", "glm45", 0,
			"<think>hm</think>\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>\n"
			"<tool_call>get_time\n<arg_key>tz</arg_key>\n<arg_value>CET</arg_value>\n</tool_call>",
			"R:hm\n" AB_C },
		{ "glm45", NULL, 0,
			"<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value><arg_key>days</arg_key><arg_value>3</arg_value></tool_call><tool_call>now</tool_call>",
			"T:get_weather {\"city\":\"Paris\",\"days\":3}\n" NOW },
		{ "glm45", NULL, 0, "<tool_call>now\n</tool_call>", NOW },
		{ "glm45", NULL, 0, "<tool_call>now", NOW },
		{ "glm45", NULL, 0, "The mark is <tool_call>, then",
			"C:The mark is <tool_call>, then\n" },
		{ "glm45", NULL, 0, "The mark is <tool_call> then",
			"C:The mark is <tool_call> then\n" },
		{ "glm45", NULL, 0,
			"<tool_call>get_weather<arg_key>city</arg_key>Paris</arg_value></tool_call>",
			A_C },
		{ "longcat", NULL, 0, "<longcat_tool_call>\n" JA "\n</longcat_tool_call>", A },
		{ "longcat", NULL, 0,
			"<longcat_tool_call>get_weather\n<longcat_arg_key>city</longcat_arg_key>\n<longcat_arg_value>Paris</longcat_arg_value>\n</longcat_tool_call>",
			A_C },
		/* other tags */
		{ "minimax_m2", "minimax_m2", 0,
			"hm</think>\n\n<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Paris</parameter>\n</invoke>\n"
			"<invoke name=\"get_time\">\n<parameter name=\"tz\">CET</parameter>\n</invoke>\n</minimax:tool_call>",
			"R:hm\n" AB_C },
		{ "minimax_m2", "minimax_m2", 0,
			"hm<minimax:tool_call>\n<invoke name=\"now\">\n</invoke>\n</minimax:tool_call>",
			"R:hm\n" NOW },
		{ "muse_glimmer", "muse_glimmer", 0,
			" to=self<|message|>hm<|eom|><|start|>assistant to=user<|message|>Look.<|eom|><|start|>assistant to=get_weather<|message|>"
			"<atem:function_calls>\n<atem:invoke name=\"get_weather\">\n<atem:parameter name=\"city\">Paris</atem:parameter>\n</atem:invoke>\n</atem:function_calls>"
			"<|eom|><|start|>assistant to=my-tool.v2<|message|><atem:invoke name=\"now\"></atem:invoke>",
			"R:hm\nC:Look.\n" A_C NOW },
		{ "muse_glimmer", NULL, 0, "A to=x y, to=<|message|> z",
			"C:A to=x y, to=<|message|> z\n" },
		{ "muse_glimmer", NULL, 0,
			"<atem:invoke name=\"get_weather\"><atem:parameter name=\"city\">Paris</atem:parameter></atem:invoke>",
			A_C },
		{ "dots", "qwen3", 0,
			"<dots_function_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Paris</parameter>\n</invoke>\n"
			"<invoke name=\"get_time\">\n<parameter name=\"tz\">CET</parameter>\n</invoke>\n</dots_function_call>",
			AB_C },
		{ "dots", NULL, 0, "<dots_function_call>\n" JA "\n</dots_function_call>", A },
		{ "minicpm5", "qwen3", 0,
			"Hm.<function name=\"get_weather\"><param name=\"city\">Paris</param></function>\n<function name=\"get_time\"><param name=\"tz\">CET</param></function>",
			"C:Hm.\n" AB_C },
		{ "minicpm5", NULL, 0,
			"<function name=\"get_weather\"><param name=\"city\"><![CDATA[a < b\n&c]]></param><param name=\"days\">3</param></function>",
			"T:get_weather {\"city\":\"a < b\\n&c\",\"days\":3}\n" },
		{ "minicpm5", NULL, 0, "<function name=\"now\"></function>", NOW },
		{ "gigachat35", NULL, 0,
			"<｜GCML｜tool_calls>\n<｜GCML｜invoke name=\"get_weather\">\n<｜GCML｜parameter name=\"city\" string=\"true\">Paris</｜GCML｜parameter>\n"
			"<｜GCML｜parameter name=\"days\" string=\"false\">3</｜GCML｜parameter>\n</｜GCML｜invoke>\n</｜GCML｜tool_calls><|message_sep|>",
			"T:get_weather {\"city\":\"Paris\",\"days\":3}\n" },
		{ "iquest_q1", "iquest_q1", 0,
			"hm</think><iquest_tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</iquest_tool_call>\n<iquest_tool_call>now</iquest_tool_call>",
			"R:hm\n" A_C NOW },
		{ "k2_horizon", "k2_horizon", 0,
			"hm</ifm|think>\n<ifm|tool_calls>\n<ifm|tool_call>get_weather\n<ifm|arg_key>city</ifm|arg_key>\n<ifm|arg_value>Paris</ifm|arg_value>\n</ifm|tool_call>\n</ifm|tool_calls>",
			"R:hm\n" A_C },
		{ "k2_horizon", NULL, 0,
			"<ifm|tool_call>get_weather<ifm|arg_key>city</ifm|arg_key><ifm|arg_type>string</ifm|arg_type><ifm|arg_value>007</ifm|arg_value>"
			"<ifm|arg_key>note</ifm|arg_key><ifm|arg_type>integer</ifm|arg_type><ifm|arg_value>7</ifm|arg_value></ifm|tool_call>",
			"T:get_weather {\"city\":\"007\",\"note\":\"7\"}\n" }, /* the schema has a string */
		{ "k2_horizon",
			NULL, 0, "<ifm|tool_call>now<ifm|arg_key>n</ifm|arg_key><ifm|arg_type>integer</ifm|arg_type><ifm|arg_value>7</ifm|arg_value></ifm|tool_call>",
			"T:now {\"n\":7}\n" },
		{ "k2_horizon", NULL, 0,
			"<ifm|tool_calls>\n<ifm|tool_call>" JA
			"</ifm|tool_call>\n<ifm|tool_call>\n" JB "\n</ifm|tool_call>"
			"<ifm|tool_call>get_weather<ifm|arg_key>city</ifm|arg_key><ifm|arg_value>Paris</ifm|arg_value></ifm|tool_call>\n</ifm|tool_calls>",
			AB A_C },
		{ "k2_horizon", NULL, 0, "Look.<ifm|tool_call>" JA "</ifm|tool_call>Then this.",
			"C:Look.\n" A "C:Then this.\n" },
		{ "hunyuan", NULL, 0,
			"<tool_calls><tool_call>" JA "</tool_call>\n<tool_call>" JB
			"</tool_call></tool_calls>",
			AB },
		{ "k2_horizon", NULL, 0, "<ifm|tool_calls>[" JA ", " JB "]</ifm|tool_calls>", AB },
		{ "hunyuan", "hunyuan", 0,
			"<think>hm</think><tool_calls>\n<tool_call>get_weather<tool_sep>\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>\n"
			"<tool_call>get_time<tool_sep>\n<arg_key>tz</arg_key>\n<arg_value>CET</arg_value>\n</tool_call>\n</tool_calls>",
			"R:hm\n" AB_C },
		{ "hunyuan", "hunyuan", 0,
			"<think:6124c78e>hm</think:6124c78e><tool_calls:6124c78e>\n<tool_call:6124c78e>get_weather\n<arg_key:6124c78e>city</arg_key:6124c78e>\n"
			"<arg_value:6124c78e>a</arg_value:other></arg_value> </tool_call></arg_value:6124c78e>\n</tool_call:6124c78e>\n<tool_call:6124c78e>now</tool_call:6124c78e>\n</tool_calls:6124c78e>",
			"R:hm\nT:get_weather {\"city\":\"a</arg_value:other></arg_value> </tool_call>\"}\n" NOW },
		{ "minimax_m3", "minimax_m3", 0,
			"<mm:think>hm</mm:think>" M3S(M3C("get_weather", E("city", "Paris"))
					M3C("get_time", E("tz", "CET"))) "\n",
			"R:hm\n" AB_C },
		{ "minimax_m3", NULL, 0,
			M3S(
				M3C("my-tool.v2",
					E("x", E("a", "1")
							E("b", E("item", "true") E("item", ""))
								E("c", E("d", "Zü \"x\"")))
						E("l", E("item", "1") E("item", E("k", "v")))
							E("n", "-1.50") E("b", "True") E("o", "null") E("i", "007") E("z", "5"))),
			"T:my-tool.v2 {\"x\":{\"a\":\"1\",\"b\":[true,\"\"],\"c\":{\"d\":\"Zü \\\"x\\\"\"}},\"l\":[\"1\",{\"k\":\"v\"}],\"n\":-1.50,\"b\":true,\"o\":null,\"i\":\"007\",\"z\":\"5\"}\n" },
		{ "minimax_m3", NULL, 0, M3S(M3C("my-tool.v2", E("x", "") E("l", " ") E("o", ""))),
			"T:my-tool.v2 {\"x\":{},\"l\":[],\"o\":\"\"}\n" },
		{ "minimax_m3", NULL, 0, M3S(M3C("now", "")), NOW },
		{ "minimax_m3", NULL, 0,
			M3S(M3C("get_weather", E("city", "<b>" M3 "<x>1" M3 "</x> " M3 "z" M3 M3
							 "</city") M3 "<days>3\n" M3 " </days>")),
			"T:get_weather {\"city\":\"<b>]<]minimax[>[<x>1]<]minimax[>[</x> ]<]minimax[>[z]<]minimax[>[]<]minimax[>[</city\",\"days\":3}\n" },
		{ "minimax_m3", NULL, 0, "a ]<]minimax[>[<tool> b", "C:a ]<]minimax[>[<tool> b\n" },
		{ "step3", "step3", 0,
			"hm</think><｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\"get_weather\"><steptml:parameter name=\"city\">a < b</steptml:parameter></steptml:invoke><｜tool_call_end｜>"
			"<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\"get_time\"><steptml:parameter name=\"tz\">CET</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>",
			"R:hm\nT:get_weather {\"city\":\"a < b\"}\nT:get_time {\"tz\":\"CET\"}\n" },
	};

#endif
