/* mcp_probe [IDLE_MS]: lib/mcp as a program, for tests/integ/mcp and by hand. Commands are JSON objects, one a line, on standard input; what comes of
   them comes out the same way, with the command's id. At the end of its input everything is taken down, so that a leak shows under ASan.

   {"op":"list"|"call","id":"a","url":"...","tenant":"","headers":{"X":"y"},"tool":"add","arguments":"{}","call_ms":1000,"total_ms":5000,"list_ms":1000,
   "connect_ms":1000,"ttl_ms":1000,"max":1000,"private":true}; {"op":"cancel","id":"a"}; {"op":"metrics","id":"m"}. With "then":64 whoever is told of the list makes so many calls of "tool". */
#include "base/clock.h"
#include "base/list.h"
#include "base/mem.h"
#include "json/jansson.h"
#include "mcp/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

struct thing {
	struct kp_list link;
	char *id;
	struct kp_mcp *m;
	struct kp_mcp_ask *ask;
	json_t *command;
};

static struct kp_loop *loop;
static struct kp_mcp_pool *pool;
static struct kp_metrics *metrics;
static struct kp_list things;
static uv_pipe_t input;
static struct kp_buf line;

static void say(json_t *v)
{
	char *z = json_dumps(v, JSON_COMPACT);
	puts(z);
	fflush(stdout);
	free(z);
	json_decref(v);
}

static json_t *str(kp_str s)
{
	return json_stringn(s.n ? s.p : "", s.n);
}

static void end(struct thing *t)
{
	kp_list_del(&t->link);
	kp_mcp_put(t->m);
	kp_mem_free(t->id);
	json_decref(t->command);
	kp_mem_free(t);
}

static void start(json_t *v);

static void on_list(void *ctx, const struct kp_mcp_tools *tools, const struct kp_err *err)
{
	struct thing *t = ctx;
	json_t *list = json_array();
	for (size_t i = 0; tools && i < tools->n; i++) {
		const struct kp_mcp_tool *x = &tools->items[i];
		char exposed[KP_MCP_EXPOSED_MAX + 1];
		kp_mcp_expose(KP_S("srv"), x->name, exposed);
		json_array_append_new(
			list, json_pack("{s:o,s:o,s:o,s:b,s:s}", "name", str(x->name),
				      "description", str(x->description), "schema",
				      json_loadb(x->input_schema.p, x->input_schema.n, 0, NULL),
				      "read_only", x->is_read_only, "exposed", exposed));
	}
	say(json_pack("{s:s,s:o,s:s,s:s,s:I}", "id", t->id, "tools", list, "code",
		err ? kp_code_name(err->code) : "", "message", err ? err->msg : "", "left_out",
		tools ? (json_int_t)tools->n_left_out : (json_int_t)0));
	json_object_set_new(t->command, "op", json_string("call"));
	for (json_int_t i = 0; i < json_integer_value(json_object_get(t->command, "then")); i++) {
		start(t->command);
	}
	end(t);
}

static void on_progress(void *ctx, double progress, double total, kp_str message)
{
	struct thing *t = ctx;
	say(json_pack("{s:s,s:f,s:f,s:o}", "id", t->id, "progress", progress, "total", total,
		"message", str(message)));
}

static void on_result(void *ctx, const struct kp_mcp_result *r)
{
	static const char *const names[] = { "", "ok", "tool_error", "protocol_error", "failed" };
	struct thing *t = ctx;
	say(json_pack("{s:s,s:s,s:o,s:s,s:s,s:I,s:b,s:b}", "id", t->id, "outcome",
		names[r->outcome], "output", str(r->output), "code", kp_code_name(r->err.code),
		"message", r->err.msg, "rpc_code", (json_int_t)r->code, "cut", r->is_cut,
		"may_have_run", r->may_have_run));
	end(t);
}

static int64_t ms(const json_t *v, const char *key)
{
	return json_integer_value(json_object_get(v, key)) * KP_NS_PER_MS;
}

static void start(json_t *v)
{
	struct kp_fetch_header headers[16];
	struct kp_err err;
	const char *key;
	json_t *value;
	struct kp_mcp_config c = { .name = KP_S("test"),
		.url = kp_doc_str(v, "url"),
		.tenant = kp_doc_str(v, "tenant"),
		.headers = headers,
		.connect_ns = ms(v, "connect_ms"),
		.list_ns = ms(v, "list_ms"),
		.call_ns = ms(v, "call_ms"),
		.call_total_ns = ms(v, "total_ms"),
		.list_ttl_ns = ms(v, "ttl_ms"),
		.max_output_bytes = (size_t)json_integer_value(json_object_get(v, "max")),
		.policy.allows_private = !json_is_false(json_object_get(v, "private")) };
	json_object_foreach(json_object_get(v, "headers"), key, value)
	{
		headers[c.n_headers++] = (struct kp_fetch_header){ kp_str_c(key),
			kp_str_c(json_string_value(value)) };
	}
	struct kp_mcp *m = kp_mcp_get(pool, &c, &err);
	if (!m) {
		say(json_pack("{s:s,s:s,s:s}", "id", json_string_value(json_object_get(v, "id")),
			"code", kp_code_name(err.code), "message", err.msg));
		return;
	}
	struct thing *t = kp_new(struct thing);
	t->id = kp_str_z(kp_doc_str(v, "id"));
	t->m = m;
	t->command = json_incref(v);
	kp_list_push(&things, &t->link);
	if (kp_str_eq(kp_doc_str(v, "op"), KP_S("list"))) {
		t->ask = kp_mcp_list(m, on_list, t);
	} else {
		t->ask = kp_mcp_call(m, &(struct kp_mcp_call){ .tool = kp_doc_str(v, "tool"),
						.arguments = kp_doc_str(v, "arguments"),
						.progress = on_progress,
						.done = on_result,
						.ctx = t });
	}
}

static void cancel(kp_str id)
{
	kp_list_each_safe (node, &things) {
		struct thing *t = KP_CONTAINER(node, struct thing, link);
		if (id.n == 0 || kp_str_eq(kp_str_c(t->id), id)) {
			kp_mcp_cancel(t->ask);
			end(t);
		}
	}
}

static void command(kp_str text)
{
	json_t *v = json_loadb(text.p, text.n, 0, NULL);
	kp_str op = kp_doc_str(v, "op");
	if (kp_str_eq(op, KP_S("cancel"))) {
		cancel(kp_doc_str(v, "id"));
	} else if (kp_str_eq(op, KP_S("metrics"))) {
		KP_AUTO(buf) struct kp_buf b;
		kp_buf_init(&b, 1 << 20);
		kp_metrics_render(metrics, &b);
		say(json_pack(
			"{s:o,s:o}", "id", str(kp_doc_str(v, "id")), "text", str(kp_buf_str(&b))));
	} else {
		start(v);
	}
	json_decref(v);
}

static void stop(struct kp_timer *t)
{
	(void)t;
	cancel(KP_STR_NULL);
	kp_mcp_pool_destroy(pool);
	kp_loop_stop(loop);
}

static void on_alloc(uv_handle_t *h, size_t n, uv_buf_t *b)
{
	static char space[65536];
	(void)h;
	(void)n;
	*b = uv_buf_init(space, sizeof(space));
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	static struct kp_timer timer;
	kp_loop_now(loop);
	if (n < 0) {
		uv_close((uv_handle_t *)s, NULL);
		kp_timer_start(loop, &timer, 0, stop);
		return;
	}
	kp_buf_add(&line, kp_str_n(b->base, (size_t)n));
	for (ptrdiff_t at; (at = kp_str_find_char(kp_buf_str(&line), '\n')) >= 0;) {
		char *z = kp_str_z(kp_str_sub(kp_buf_str(&line), 0, (size_t)at));
		kp_buf_consume(&line, (size_t)at + 1);
		command(kp_str_c(z));
		kp_mem_free(z);
	}
}

int main(int argc, char **argv)
{
	uint64_t idle_ms = 0;
	if (argc > 1 && !kp_str_u64(kp_str_c(argv[1]), 1000000, &idle_ms)) {
		return 2;
	}
	loop = kp_loop_create("probe");
	metrics = kp_metrics_create();
	kp_list_init(&things);
	kp_buf_init(&line, 8 << 20);
	const struct kp_mcp_pool_opts o = {
		.version = "test", .metrics = metrics, .idle_ns = (int64_t)idle_ms * KP_NS_PER_MS
	};
	pool = kp_mcp_pool_create(loop, &o);
	uv_pipe_init(kp_loop_uv(loop), &input, 0);
	uv_pipe_open(&input, 0);
	uv_read_start((uv_stream_t *)&input, on_alloc, on_read);
	kp_loop_run(loop);
	kp_loop_destroy(loop);
	kp_metrics_destroy(metrics);
	kp_buf_fini(&line);
	return 0;
}
