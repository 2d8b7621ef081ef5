/* What models write, and what it means. One row per case; every row is fed in all cuts (family_test.c). The meaning, in order: "R:thought" "C:text"
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

extern const struct parse_case parse_cases[];
extern const size_t n_parse_cases;

/* The tools of all cases. */
extern const char parse_tools[];

#endif
