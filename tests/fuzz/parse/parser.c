/* Fuzz target: a text through any family's parser, whole, in pieces and byte by byte, with its markers as text or as tokens: the same events, well formed, and nothing visible
   lost. The first four bytes choose family, thoughts, how it begins and how it is cut. */
#include "base/mem.h"
#include "base/rand.h"
#include "parse/parser.h"

struct seen {
	struct kp_buf text;
	enum kp_event_kind last;
	bool in_call;
	size_t n_calls;
};

static void see(void *ctx, const struct kp_event *ev)
{
	struct seen *s = ctx;
	KP_BUG_ON(ev->kind != KP_EV_TOOL_START && ev->kind != KP_EV_TOOL_END && ev->text.n == 0);
	KP_BUG_ON((ev->kind == KP_EV_TOOL_ARGUMENTS || ev->kind == KP_EV_TOOL_END) != s->in_call);
	if (ev->kind != s->last) {
		kp_buf_printf(&s->text, "\n%d:", (int)ev->kind);
	}
	s->last = ev->kind;
	if (ev->kind == KP_EV_TOOL_START) {
		KP_BUG_ON(ev->tool.index != s->n_calls++ || ev->tool.name.n == 0 ||
			  ev->tool.id.n == 0);
		s->in_call = true;
		kp_buf_add(&s->text, ev->tool.name);
	} else if (ev->kind == KP_EV_TOOL_END) {
		s->in_call = false;
	} else {
		kp_buf_add(&s->text, ev->text);
	}
}

static const char tools_json[] =
	"[{\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"s\":{\"type\":\"string\"},\"i\":{\"type\":\"integer\"},"
	"\"o\":{\"type\":\"object\"},\"n\":{\"type\":[\"string\",\"null\"]}}}}},{\"function\":{\"name\":\"get_weather\"}}]";

/* piece 0: whole. */
static void run(
	const struct kp_parse_opts *opts, kp_str text, size_t piece, bool truncated, struct seen *s)
{
	struct kp_parse_opts o = *opts;
	struct kp_rng rng;
	struct kp_err err;
	kp_rng_seed(&rng, 3);
	*s = (struct seen){ .last = KP_EV_NONE };
	kp_buf_init(&s->text, 64 << 20);
	o.rng = &rng;
	o.emit = see;
	o.ctx = s;
	KP_AUTO(parser) struct kp_parser *p = kp_parser_create(&o);
	for (size_t at = 0; at < text.n;) {
		size_t n = piece ? KP_MIN(piece, text.n - at) : text.n;
		KP_BUG_ON(kp_parser_feed(p, kp_str_sub(text, at, at + n), &err));
		kp_parser_flush(p);
		at += n;
	}
	KP_BUG_ON(kp_parser_finish(p, truncated, &err));
	KP_BUG_ON(s->in_call || s->text.failed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 4 || size > 20000) {
		return 0;
	}
	KP_AUTO(arena) struct kp_arena *a = kp_arena_create(1 << 20);
	struct kp_tool_offer offer;
	struct kp_jv tools;
	struct kp_err err;
	struct seen whole, cut;
	KP_BUG_ON(kp_jv_parse(kp_str_c(tools_json), a, &tools, &err) ||
		  kp_tool_offer_create(a, &tools, &offer, &err));
	const struct kp_parse_opts o = { .tools = &kp_grammars[data[0] % kp_n_grammars],
		.thinking = data[1] & 0x80 ? NULL : &kp_thinkings[data[1] % kp_n_thinkings],
		.offer = &offer,
		.start = (enum kp_parse_start)(data[2] % 3),
		.one_call = data[2] & 0x80 };
	kp_str text = kp_str_n(data + 4, size - 4);
	bool truncated = data[3] & 1;
	run(&o, text, 0, truncated, &whole);
	run(&o, text, 1, truncated, &cut);
	KP_BUG_ON(!kp_str_eq(kp_buf_str(&whole.text), kp_buf_str(&cut.text)));
	kp_buf_fini(&cut.text);
	run(&o, text, 2 + data[3] / 2 % 7, truncated, &cut);
	KP_BUG_ON(!kp_str_eq(kp_buf_str(&whole.text), kp_buf_str(&cut.text)));
	kp_buf_fini(&cut.text);
	kp_buf_fini(&whole.text);
	return 0;
}
