/* Fuzz target: a text through any family's parser, whole, in pieces and byte by byte, with its markers as text or as tokens: the same events, well formed, and nothing visible
   lost. The first four bytes choose family, thoughts, how it begins and how it is cut. */
#include "base/mem.h"
#include "base/rand.h"
#include "base/utf8.h"
#include "parse/parser.h"

enum { TRUNCATED = 1, HIDDEN = 64, TOKENS = 128 }; /* of the fourth byte */

struct seen {
	struct kp_buf text;
	enum kp_event_kind last;
	bool in_call, is_utf8; /* is_utf8: what is parsed, so each event, too */
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
		KP_BUG_ON(s->is_utf8 && !kp_utf8_ok(ev->text));
		kp_buf_add(&s->text, ev->text);
	}
}

static const char tools_json[] =
	"[{\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"s\":{\"type\":\"string\"},\"i\":{\"type\":\"integer\"},"
	"\"o\":{\"type\":\"object\"},\"n\":{\"type\":[\"string\",\"null\"]}}}}},{\"function\":{\"name\":\"get_weather\"}}]";

/* Markers as the vocabulary's tokens. */
enum { TOKENS_MAX = 64 };
static kp_str tokens[TOKENS_MAX];
static size_t n_tokens;

static void add_tokens(const char *const *list)
{
	for (size_t i = 0; i < KP_MARKS && list[i]; i++) {
		kp_str s = kp_str_c(list[i]);
		if (s.n >= 4 && n_tokens < TOKENS_MAX) {
			tokens[n_tokens++] = s;
		}
	}
}

static const struct kp_lexicon *lexicon_of(
	struct kp_arena *a, const struct kp_grammar *g, const struct kp_thinking *t, bool by_tokens)
{
	const struct kp_lexicon *l;
	struct kp_err err;
	n_tokens = 0;
	if (by_tokens) {
		add_tokens(g->open);
		add_tokens(g->close);
		add_tokens(g->call_open);
		add_tokens(g->call_close);
	}
	if (by_tokens && t) {
		add_tokens(t->open);
		add_tokens(t->close);
	}
	KP_BUG_ON(kp_lexicon_create(a, g, t, tokens, n_tokens, &l, &err));
	return l;
}

/* A token at the begin of text: its length, or 0. */
static size_t token_at(kp_str text)
{
	size_t best = 0;
	for (size_t i = 0; i < n_tokens; i++) {
		best = kp_str_starts(text, tokens[i]) ? KP_MAX(best, tokens[i].n) : best;
	}
	return best;
}

/* piece 0: whole, but for the tokens, which come alone; hidden: as special ones. */
static void run(
	const struct kp_parse_opts *opts, kp_str text, size_t piece, uint8_t how, struct seen *s)
{
	struct kp_parse_opts o = *opts;
	struct kp_rng rng;
	struct kp_err err;
	kp_rng_seed(&rng, 3);
	*s = (struct seen){ .last = KP_EV_NONE, .is_utf8 = kp_utf8_ok(text) };
	kp_buf_init(&s->text, 64 << 20);
	o.rng = &rng;
	o.emit = see;
	o.ctx = s;
	KP_AUTO(parser) struct kp_parser *p = kp_parser_create(&o);
	for (size_t at = 0; at < text.n;) {
		size_t most = piece ? KP_MIN(piece, text.n - at) : text.n - at, n = 0;
		size_t token = token_at(kp_str_skip(text, at));
		while (!token && n < most && !token_at(kp_str_skip(text, at + n))) {
			n++;
		}
		n = token ? token : n;
		kp_str part = kp_str_sub(text, at, at + n);
		KP_BUG_ON(token ? kp_parser_feed_control(p, part, how & HIDDEN, &err)
				: kp_parser_feed(p, part, &err));
		kp_parser_flush(p);
		at += n;
	}
	KP_BUG_ON(kp_parser_finish(p, how & TRUNCATED, &err));
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
	const struct kp_grammar *g = &kp_grammars[data[0] % kp_n_grammars];
	const struct kp_thinking *t =
		data[1] & 0x80 ? NULL : &kp_thinkings[data[1] % kp_n_thinkings];
	const struct kp_parse_opts o = { .lexicon = lexicon_of(a, g, t, data[3] & TOKENS),
		.offer = &offer,
		.start = (enum kp_parse_start)(data[2] % 3),
		.one_call = data[2] & 0x80 };
	kp_str text = kp_str_n(data + 4, size - 4);
	uint8_t how = data[3];
	run(&o, text, 0, how, &whole);
	run(&o, text, 1, how, &cut);
	KP_BUG_ON(!kp_str_eq(kp_buf_str(&whole.text), kp_buf_str(&cut.text)));
	kp_buf_fini(&cut.text);
	run(&o, text, 2 + data[3] / 2 % 7, how, &cut);
	KP_BUG_ON(!kp_str_eq(kp_buf_str(&whole.text), kp_buf_str(&cut.text)));
	kp_buf_fini(&cut.text);
	kp_buf_fini(&whole.text);
	return 0;
}
