/* What models write, and what it means: rows of cases_json.h, cases_tags.h, cases_other.h, each fed in all cuts by family_test.c. The meaning, in order: "R:thought" "C:text"
   "T:name arguments", each ended by a line end; neighbours of one kind are one. */
#ifndef TESTS_PROP_PARSE_CASES_H
#define TESTS_PROP_PARSE_CASES_H

#include "parse/parser.h"

struct parse_case {
	const char *tools, *thinking; /* names, NULL: none */
	enum kp_parse_start start;
	const char *text, *means;
};

#define A    "T:get_weather {\"city\": \"Paris\"}\n"
#define AB   A "T:get_time {\"tz\": \"CET\"}\n"
#define A_C  "T:get_weather {\"city\":\"Paris\"}\n" /* made by us, not by the model */
#define AB_C A_C "T:get_time {\"tz\":\"CET\"}\n"
#define NOW  "T:now {}\n"
#define JA   "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}"
#define JB   "{\"name\": \"get_time\", \"arguments\": {\"tz\": \"CET\"}}"
#define PA   "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}}"
#define PB   "{\"name\": \"get_time\", \"parameters\": {\"tz\": \"CET\"}}"

#define H1 "<tool_call>\n" JA "\n</tool_call>"
#define Q1 \
	"<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>"
#define Q2 \
	"<tool_call>\n<function=get_time>\n<parameter=tz>\nCET\n</parameter>\n</function>\n</tool_call>"

/* MiniMax M3: an element, and what is in it. */
#define M3         "]<]minimax[>["
#define E(n, in)   M3 "<" n ">" in M3 "</" n ">"
#define M3C(n, in) M3 "<invoke name=\"" n "\">" in M3 "</invoke>\n"
#define M3S(in)    M3 "<tool_call>\n" in M3 "</tool_call>"

/* The tools of all cases. */
KP_UNUSED static const char parse_tools[] =
	"[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},"
	"\"days\":{\"type\":\"integer\"},\"note\":{\"type\":\"string\"}}}}},"
	"{\"type\":\"function\",\"function\":{\"name\":\"get_time\",\"parameters\":{\"type\":\"object\",\"properties\":{\"tz\":{\"type\":\"string\"}}}}},"
	"{\"type\":\"function\",\"function\":{\"name\":\"now\"}},"
	"{\"type\":\"function\",\"function\":{\"name\":\"python\"}},{\"type\":\"function\",\"function\":{\"name\":\"container.exec\"}},"
	"{\"type\":\"function\",\"function\":{\"name\":\"my-tool.v2\",\"parameters\":{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"object\"},"
	"\"l\":{\"type\":\"array\"},\"n\":{\"type\":\"number\"},\"b\":{\"type\":\"boolean\"},\"o\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]},"
	"\"i\":{\"type\":[\"integer\",\"string\"]},\"r\":{\"$ref\":\"#/$defs/T\"}},\"$defs\":{\"T\":{\"enum\":[1,2]}}}}}]";

#endif
