/* Answers frames (see tests/oracle/api/go/main.go) with what lib/api and lib/schema say:
     m  manifest text: {"problems": [{warning, line, column, object, field, message}...], "objects": n}
     d  one object in JSON: the object with its defaults
     r  {"pattern", "texts"}  n  {"kind", "texts"}  c  {"rule": name, "texts"}: as there, rules by name */
#include "api/manifest.h"
#include "api/rules.h"
#include "json/jansson.h"
#include "schema/names.h"
#include "tests/frames.h"

#include <stdio.h>
#include <stdlib.h>

static json_t *check_manifest(kp_str text)
{
	struct kp_manifest_file f = { .name = "in.yaml", .text = text };
	struct kp_object_set set = { 0 };
	struct kp_problems ps;
	struct kp_err err;
	kp_problems_init(&ps);
	int r = kp_manifest_parse(&f, 1, KP_S("default"), &set, &ps, &err);
	json_t *list = json_array();
	for (size_t i = 0; i < ps.n; i++) {
		const struct kp_problem *p = &ps.p[i];
		json_array_append_new(
			list, json_pack("{s:b, s:i, s:i, s:s, s:s, s:s}", "warning", p->warning,
				      "line", (int)p->line, "column", (int)p->column, "object",
				      p->object, "field", p->field, "message", p->message));
	}
	json_t *answer = json_pack("{s:o, s:i, s:s}", "problems", list, "objects", (int)set.n,
		"error", r ? err.msg : "");
	kp_problems_fini(&ps);
	kp_object_set_fini(&set);
	return answer;
}

/* The JSON value of a frame; what is none ends the program. */
static json_t *value_of(kp_str body)
{
	json_t *v;
	struct kp_err err;
	if (kp_doc_json(body, "question", &kp_doc_limits_manifest, &v, &err)) {
		fprintf(stderr, "%s\n", err.msg);
		exit(1);
	}
	return v;
}

static json_t *with_defaults(kp_str body)
{
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_field_errors e;
	struct kp_object o;
	struct kp_err err;
	json_t *v = value_of(body);
	enum kp_kind kind = kp_kind_find(kp_doc_str(v, "apiVersion"), kp_doc_str(v, "kind"));
	if (kind == KP_KIND_NONE || kp_field_errors_init(&e, a, 10, &err) ||
		kp_object_load(kind, v, KP_S("default"), a, &o, &e, &err) || e.n) {
		abort();
	}
	return v;
}

static bool matches(const char *pattern, kp_str text)
{
#define KP_PATTERN(name, regex)                         \
	if (strcmp(pattern, regex) == 0) {              \
		return kp_pattern_##name.matches(text); \
	}
#include "schema/patterns.def"
#undef KP_PATTERN
	abort();
}

static bool holds(const char *rule, const json_t *self)
{
#define KP_RULE(name, text)                  \
	if (strcmp(rule, #name) == 0) {      \
		return kp_rule_##name(self); \
	}
#include "api/rules.def"
#undef KP_RULE
	abort();
}

static json_t *name_errors(const char *kind, kp_str text)
{
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_field_errors e;
	struct kp_err err;
	if (kp_field_errors_init(&e, a, 10, &err)) {
		abort();
	}
	if (strcmp(kind, "subdomain") == 0) {
		kp_name_check_subdomain(&e, text);
	} else if (strcmp(kind, "label") == 0) {
		kp_name_check_dns_label(&e, text);
	} else if (strcmp(kind, "labelvalue") == 0) {
		kp_name_check_label_value(&e, text);
	} else {
		kp_name_check_qualified(&e, text, text);
	}
	bool ok = strcmp(kind, "subdomain") == 0    ? kp_is_dns_subdomain(text)
		  : strcmp(kind, "label") == 0      ? kp_is_dns_label(text)
		  : strcmp(kind, "labelvalue") == 0 ? kp_is_label_value(text)
						    : kp_is_qualified_name(text);
	if (ok != (e.n == 0)) {
		abort();
	}
	json_t *list = json_array();
	for (size_t i = 0; i < e.n; i++) {
		json_array_append_new(list, json_string(e.p[i].text));
	}
	return list;
}

static json_t *ask(char kind, kp_str body)
{
	if (kind == 'm') {
		return check_manifest(body);
	}
	if (kind == 'd') {
		return with_defaults(body);
	}
	json_t *q = value_of(body), *list = json_array();
	const json_t *texts = json_object_get(q, "texts");
	for (size_t i = 0; i < json_array_size(texts); i++) {
		const json_t *t = json_array_get(texts, i);
		kp_str text = kp_str_n(json_string_value(t), json_string_length(t));
		json_array_append_new(list,
			kind == 'r'
				? json_boolean(matches(
					  json_string_value(json_object_get(q, "pattern")), text))
			: kind == 'c'
				? json_boolean(
					  holds(json_string_value(json_object_get(q, "rule")), t))
				: name_errors(json_string_value(json_object_get(q, "kind")), text));
	}
	json_decref(q);
	return list;
}

int main(void)
{
	struct test_frame f;
	while (frame_read(&f)) {
		json_t *answer = ask(f.kind, kp_str_n(f.text, f.n));
		char *line = json_dumps(answer, JSON_COMPACT | JSON_ENSURE_ASCII);
		if (!line) {
			return 1;
		}
		puts(line);
		kp_mem_free(line);
		json_decref(answer);
		kp_mem_free(f.text);
	}
	return 0;
}
