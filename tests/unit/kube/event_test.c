/* A watch's stream gives the same events however it is cut; what is no event is refused. */
#include "kube/event.h"
#include "tests/test.h"

#include "base/vec.h"

static const char stream[] =
	"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}\n"
	"\n"
	"{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\"\xc3\xa9\\n\"}}}\r\n"
	"{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"7\"}}}\n"
	"{\"type\":\"DELETED\",\"object\":{}}\n"
	"{\"type\":\"ERROR\",\"object\":{\"code\":410}}\n"
	"{\"type\":\"ADDED\",\"obj";

static int note(void *ctx, kp_str line, struct kp_err *err)
{
	struct kp_buf *b = ctx;
	struct kp_kube_event_line e;
	if (kp_kube_event_parse(line, &e, err)) {
		return -1;
	}
	char *z = json_dumps(e.object, JSON_COMPACT);
	kp_buf_printf(b, "%d %s %zu\n", (int)e.type, z, e.bytes);
	free(z);
	kp_kube_event_line_fini(&e);
	return 0;
}

/* What comes of the stream cut at a and b. */
static void cut(size_t a, size_t b, struct kp_buf *ret)
{
	struct kp_kube_lines l;
	struct kp_err err = KP_ERR_INIT;
	kp_str s = kp_str_c(stream),
	       parts[] = { kp_str_sub(s, 0, a), kp_str_sub(s, a, b), kp_str_skip(s, b) };
	kp_kube_lines_init(&l, 100);
	kp_buf_reset(ret);
	for (size_t i = 0; i < KP_LEN(parts); i++) {
		/* A copy of its own, so that a look beyond it is seen. */
		char *copy = kp_str_z(parts[i]);
		assert_int_equal(
			kp_kube_lines_feed(&l, kp_str_n(copy, parts[i].n), note, ret, &err), 0);
		kp_mem_free(copy);
	}
	kp_kube_lines_fini(&l);
}

static void cuts_change_nothing(void **state)
{
	(void)state;
	struct kp_buf whole, parts;
	kp_buf_init(&whole, 1 << 16);
	kp_buf_init(&parts, 1 << 16);
	cut(0, 0, &whole);
	assert_str_lit(kp_buf_str(&whole), "1 {\"metadata\":{\"name\":\"a\"}} 51\n"
					   "2 {\"metadata\":{\"name\":\"\xc3\xa9\\n\"}} 57\n"
					   "4 {\"metadata\":{\"resourceVersion\":\"7\"}} 65\n"
					   "3 {} 30\n"
					   "5 {\"code\":410} 38\n");
	for (size_t a = 0; a < sizeof(stream); a++) {
		for (size_t b = a; b < sizeof(stream); b++) {
			cut(a, b, &parts);
			assert_str(kp_buf_str(&parts), kp_buf_str(&whole));
		}
	}
	kp_buf_fini(&whole);
	kp_buf_fini(&parts);
}

static int count(void *ctx, kp_str line, struct kp_err *err)
{
	(void)err;
	*(size_t *)ctx += line.n;
	return 0;
}

static void a_line_has_a_limit(void **state)
{
	(void)state;
	struct kp_kube_lines l;
	struct kp_err err = KP_ERR_INIT;
	size_t n = 0;
	kp_kube_lines_init(&l, 8);
	assert_int_equal(kp_kube_lines_feed(&l, KP_S("12345678\n1234"), count, &n, &err), 0);
	assert_int_equal(n, 8);
	assert_int_equal(kp_kube_lines_feed(&l, KP_S("5678\n"), count, &n, &err), 0);
	assert_int_equal(n, 16);
	assert_int_equal(kp_kube_lines_feed(&l, KP_S("12345"), count, &n, &err), 0);
	assert_int_equal(kp_kube_lines_feed(&l, KP_S("6789"), count, &n, &err), -1);
	assert_int_equal(err.code, KP_TOO_LARGE);
	kp_kube_lines_reset(&l);
	assert_int_equal(kp_kube_lines_feed(&l, KP_S("123456789\n"), count, &n, &err), -1);
	kp_kube_lines_fini(&l);
}

static int stop(void *ctx, kp_str line, struct kp_err *err)
{
	(void)line, (void)err;
	return ++*(int *)ctx == 2 ? 1 : 0;
}

static void it_stops_where_it_is_told(void **state)
{
	(void)state;
	struct kp_kube_lines l;
	struct kp_err err;
	int n = 0;
	kp_kube_lines_init(&l, 8);
	assert_int_equal(kp_kube_lines_feed(&l, KP_S("1\n2\n3\n"), stop, &n, &err), 1);
	assert_int_equal(n, 2);
	kp_kube_lines_fini(&l);
}

static void refused(const char *line, const char *want)
{
	struct kp_kube_event_line e;
	struct kp_err err = KP_ERR_INIT;
	assert_int_equal(kp_kube_event_parse(kp_str_c(line), &e, &err), -1);
	assert_int_equal(err.code, KP_DATA_LOSS);
	assert_string_equal(err.msg, want);
}

static void what_is_no_event(void **state)
{
	(void)state;
	refused("{\"type\":\"ADDED\"}", "parse `event`: `ADDED` without an object");
	refused("{\"type\":\"ADDED\",\"object\":[]}", "parse `event`: `ADDED` without an object");
	refused("{\"type\":\"SYNC\",\"object\":{}}", "parse `event`: `SYNC` is no type of event");
	refused("{\"object\":{}}", "parse `event`: `` is no type of event");
	refused("[]", "parse `event`: `` without an object");
	refused("{\"type\":\"ADDED\",\"object\":{}",
		"parse `event`: line 1 column 28: parse JSON: the text ends, expected `,` or `}`, at byte 27 (in `object`)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cuts_change_nothing),
		cmocka_unit_test(a_line_has_a_limit),
		cmocka_unit_test(it_stops_where_it_is_told),
		cmocka_unit_test(what_is_no_event),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
