/* Outputs against the schemas of a request, event by event: what is found, where, and what is only cut off. */
#include "sidecar/flow/validate.h"

#include "base/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#define TOOLS                                                                                              \
	"[{\"type\":\"function\",\"function\":{\"name\":\"loose\",\"parameters\":{\"type\":\"object\"}}}," \
	"{\"type\":\"function\",\"function\":{\"name\":\"exact\",\"strict\":true,\"parameters\":"          \
	"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"}},\"required\":[\"a\"]}}}]"
#define SCHEMA \
	"{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}},\"required\":[\"n\"]}"

struct fixture {
	struct kp_turn turn;
	struct kp_jv tools;
	struct kp_tool_offer offer;
	struct kp_output_schemas *schemas;
	struct kp_output_check *check;
	struct kp_output_fault fault;
};

static int compile(struct fixture *x, const char *format, const char *tools, struct kp_err *err)
{
	struct kp_err ignored;
	*x = (struct fixture){ .turn = { .arena = kp_arena_create(1 << 20) } };
	if (format) {
		x->turn.format.kind = KP_CONSTRAINT_JSON_SCHEMA;
		x->turn.format.param = "response_format";
		assert_int_equal(kp_jv_parse(kp_str_c(format), x->turn.arena,
					 &x->turn.format.schema, &ignored),
			0);
	}
	if (tools) {
		assert_int_equal(
			kp_jv_parse(kp_str_c(tools), x->turn.arena, &x->tools, &ignored), 0);
	}
	assert_int_equal(kp_tool_offer_create(x->turn.arena, &x->tools, &x->offer, &ignored), 0);
	return kp_output_schemas_compile(
		&x->turn, &x->offer, "function.parameters", &x->schemas, err);
}

static void begin(struct fixture *x, const char *format, const char *tools)
{
	struct kp_err err;
	assert_int_equal(compile(x, format, tools, &err), 0);
	assert_non_null(x->schemas);
	x->check = kp_output_check_create(x->schemas);
}

static void end(struct fixture *x)
{
	kp_output_check_destroy(x->check);
	kp_output_schemas_destroy(x->schemas);
	kp_arena_destroy(x->turn.arena);
}

static void text(struct fixture *x, enum kp_event_kind kind, const char *s)
{
	kp_output_check_event(x->check, &(struct kp_event){ .kind = kind, .text = kp_str_c(s) });
}

static void call(struct fixture *x, const char *name, const char *arguments)
{
	struct kp_event ev = { .kind = KP_EV_TOOL_START };
	ev.tool.name = kp_str_c(name);
	kp_output_check_event(x->check, &ev);
	for (size_t i = 0; arguments[i]; i++) {
		char one[2] = { arguments[i] };
		text(x, KP_EV_TOOL_ARGUMENTS, one);
	}
	ev.kind = KP_EV_TOOL_END;
	kp_output_check_event(x->check, &ev);
}

static void expect(struct fixture *x, bool is_cut, enum kp_output_result result, int call_index,
	const char *pointer)
{
	x->fault = (struct kp_output_fault){ .call = -2 };
	assert_int_equal(kp_output_check_finish(x->check, is_cut, &x->fault), result);
	if (pointer) {
		assert_int_equal(x->fault.result, result);
		assert_int_equal(x->fault.call, call_index);
		assert_string_equal(x->fault.pointer, pointer);
		assert_true(x->fault.message[0]);
	}
	end(x);
}

static void test_a_text(void **state)
{
	static const struct {
		const char *pieces[3];
		bool is_cut;
		enum kp_output_result result;
		const char *pointer;
		uint64_t offset;
	} cases[] = {
		{ { "\n {\"n\":", " 12", "} " }, false, KP_OUTPUT_VALID, NULL, 0 },
		{ { "{\"n\":", "12", "}" }, true, KP_OUTPUT_VALID, NULL, 0 },
		{ { "{\"n\":", "\"x", "\"}" }, false, KP_OUTPUT_INVALID, "/n", 5 },
		{ { "{\"n\":", "\"x" }, true, KP_OUTPUT_INVALID, "/n", 5 },
		{ { "{", "}" }, false, KP_OUTPUT_INVALID, "", 2 },
		{ { "{", "\"n\":1" }, false, KP_OUTPUT_INVALID, "/n", 6 },
		{ { "{", "\"n\":1" }, true, KP_OUTPUT_TRUNCATED, "/n", 6 },
		{ { "Sure: ", "{}" }, false, KP_OUTPUT_INVALID, "", 0 },
		{ { "{\"n\":1}", " Done." }, false, KP_OUTPUT_INVALID, "", 8 },
		{ { "" }, false, KP_OUTPUT_INVALID, "", 0 },
		{ { "" }, true, KP_OUTPUT_TRUNCATED, "", 0 },
	};
	(void)state;
	for (size_t i = 0; i < KP_LEN(cases); i++) {
		struct fixture x;
		begin(&x, SCHEMA, NULL);
		text(&x, KP_EV_REASONING, "no JSON");
		for (size_t k = 0; k < 3 && cases[i].pieces[k]; k++) {
			text(&x, KP_EV_TEXT, cases[i].pieces[k]);
		}
		expect(&x, cases[i].is_cut, cases[i].result, -1, cases[i].pointer);
		if (cases[i].pointer) {
			assert_int_equal(x.fault.offset, cases[i].offset);
		}
	}
}

static void test_what_is_certain_before_the_end(void **state)
{
	struct fixture x;
	(void)state;
	begin(&x, SCHEMA, NULL);
	text(&x, KP_EV_TEXT, "{\"n\":");
	assert_int_equal(kp_output_check_certain(x.check), KP_OUTPUT_NONE);
	text(&x, KP_EV_TEXT, "\"");
	assert_int_equal(kp_output_check_certain(x.check), KP_OUTPUT_INVALID);
	end(&x);

	begin(&x, SCHEMA, TOOLS); /* a call may take the text's place */
	text(&x, KP_EV_TEXT, "I look.");
	assert_int_equal(kp_output_check_certain(x.check), KP_OUTPUT_NONE);
	call(&x, "loose", "{]");
	call(&x, "exact", "{\"a\":\"b\"}");
	assert_int_equal(kp_output_check_certain(x.check), KP_OUTPUT_NONE);
	call(&x, "exact", "{\"a\":1}");
	assert_int_equal(kp_output_check_certain(x.check), KP_OUTPUT_INVALID);
	expect(&x, false, KP_OUTPUT_INVALID, 2, "/a");
}

static void test_arguments_of_strict_tools(void **state)
{
	struct fixture x;
	(void)state;
	begin(&x, NULL, TOOLS);
	text(&x, KP_EV_TEXT, "I look.");
	call(&x, "exact", "{\"a\":\"b\"}");
	expect(&x, false, KP_OUTPUT_VALID, 0, NULL);

	begin(&x, NULL, TOOLS);
	call(&x, "loose", "[");
	call(&x, "exact", "{\"a\":1}");
	call(&x, "exact", "{}");
	expect(&x, false, KP_OUTPUT_INVALID, 1, "/a");

	begin(&x, NULL, TOOLS);
	call(&x, "exact", ""); /* as {} */
	expect(&x, false, KP_OUTPUT_INVALID, 0, "");

	begin(&x, NULL, TOOLS);
	call(&x, "exact", "{\"a\":");
	expect(&x, true, KP_OUTPUT_TRUNCATED, 0, "/a");

	begin(&x, NULL, TOOLS);
	call(&x, "exact", "{\"a\":");
	call(&x, "loose", "{}"); /* not the last: it was not the cut */
	expect(&x, true, KP_OUTPUT_INVALID, 0, "/a");

	begin(&x, NULL, TOOLS);
	call(&x, "loose", "{");
	expect(&x, true, KP_OUTPUT_NONE, 0, NULL);
}

static void test_calls_take_the_place_of_the_text(void **state)
{
	struct fixture x;
	(void)state;
	begin(&x, SCHEMA, TOOLS);
	text(&x, KP_EV_TEXT, "I look.");
	call(&x, "loose", "{}");
	expect(&x, false, KP_OUTPUT_NONE, 0, NULL);
	begin(&x, SCHEMA, TOOLS);
	text(&x, KP_EV_TEXT, "I look.");
	expect(&x, false, KP_OUTPUT_INVALID, -1, "");
}

static void test_budget(void **state)
{
	struct fixture x;
	(void)state;
	begin(&x, "{}", NULL);
	for (size_t i = 0; i < 200; i++) {
		text(&x, KP_EV_TEXT, "[");
	}
	expect(&x, false, KP_OUTPUT_UNCHECKED, -1, "");
}

static void test_schemas_that_cannot_be_compiled(void **state)
{
	struct fixture x;
	struct kp_err err = KP_ERR_INIT;
	(void)state;
	assert_int_equal(
		compile(&x, "{\"properties\":{\"a\":{\"type\":\"strin\"}}}", NULL, &err), -1);
	assert_int_equal(err.code, KP_INVALID_ARGUMENT);
	assert_string_equal(err.param, "response_format");
	assert_non_null(strstr(err.msg, "#/properties/a"));
	end(&x);
	assert_int_equal(
		compile(&x, NULL,
			"[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":true,"
			"\"parameters\":{\"minLength\":-1}}}]",
			&err),
		-1);
	assert_string_equal(err.param, "tools[0].function.parameters");
	end(&x);
	assert_int_equal(
		compile(&x, NULL, "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]", &err),
		0);
	assert_null(x.schemas);
	end(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_text),
		cmocka_unit_test(test_what_is_certain_before_the_end),
		cmocka_unit_test(test_arguments_of_strict_tools),
		cmocka_unit_test(test_calls_take_the_place_of_the_text),
		cmocka_unit_test(test_budget),
		cmocka_unit_test(test_schemas_that_cannot_be_compiled),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
