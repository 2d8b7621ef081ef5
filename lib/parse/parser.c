/* DESIGN: text and thoughts, and the way of bytes to the machine of the mode. What leaves is gathered while its kind stays the same and given out at the end
   of each feed, but for a character that is not whole yet. White space of the text is held while calls may follow: before and between calls it is markup. */
#include "parse/machine.h"

#include "base/mem.h"
#include "base/utf8.h"

enum { MAX_BYTES = 64 << 20, N_BUFFERS = 11 };

static struct kp_buf *const *buffers(struct kp_parser *p, struct kp_buf *list[N_BUFFERS])
{
	struct kp_buf *all[N_BUFFERS] = { &p->out, &p->space, &p->raw, &p->name, &p->id, &p->word,
		&p->args, &p->key, &p->tail, &p->header, &p->names };
	memcpy(list, all, sizeof(all));
	return list;
}

struct kp_parser *kp_parser_create(const struct kp_parse_opts *o)
{
	struct kp_parser *p = kp_xmalloc(sizeof(*p));
	struct kp_buf *list[N_BUFFERS];
	const struct kp_grammar *tools = o->lexicon->tools;
	*p = (struct kp_parser){ .t = o->lexicon->thinking,
		.offer = o->offer,
		.rng = o->rng,
		.emit = o->emit,
		.ctx = o->ctx,
		.choice = o->choice,
		.one_call = o->one_call };
	bool offered = o->offer && o->offer->n;
	/* Channels are the whole format, not only its calls. */
	p->g = tools && (offered || tools->body == KP_BODY_CHANNELS) ? tools : NULL;
	p->sets = p->g ? o->lexicon->with_tools : o->lexicon->without;
	p->body = p->g ? p->g->body : KP_BODY_NONE;
	for (size_t i = 0; i < KP_LEN(list); i++) {
		kp_buf_init(buffers(p, list)[i], o->max_bytes ? o->max_bytes : MAX_BYTES);
	}
	kp_buf_init(&p->given, 64 << 10);
	if (p->body == KP_BODY_CHANNELS) {
		kp_channels_begin(p);
	} else if (kp_parse_begins_in_thought(p->t, o->start)) {
		p->mode = KP_M_THOUGHT;
		p->skip_lines = 1;
	}
	return p;
}

void kp_parser_destroy(struct kp_parser *p)
{
	struct kp_buf *list[N_BUFFERS];
	if (!p) {
		return;
	}
	for (size_t i = 0; i < KP_LEN(list); i++) {
		kp_buf_fini(buffers(p, list)[i]);
	}
	kp_buf_fini(&p->given);
	kp_mem_free(p);
}

/* --- out ---------------------------------------------------------------------------------------- */

/* Bytes of a character at the end that is not whole. */
static size_t open_character(kp_str s)
{
	for (size_t back = 1; back <= 3 && back <= s.n; back++) {
		unsigned char c = (unsigned char)s.p[s.n - back];
		if (c < 0x80) {
			return 0;
		}
		if (c >= 0xc0) {
			size_t want = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
			return back < want ? back : 0;
		}
	}
	return 0;
}

void kp_out_flush(struct kp_parser *p, bool whole)
{
	kp_str all = kp_buf_str(&p->out);
	size_t keep = whole ? 0 : open_character(all), n = all.n - keep;
	if (n) {
		p->emit(p->ctx, &(struct kp_event){ .kind = p->out_kind,
					.choice = p->choice,
					.text = kp_str_sub(all, 0, n) });
		kp_buf_consume(&p->out, n);
	}
}

void kp_out(struct kp_parser *p, enum kp_event_kind kind, kp_str text)
{
	if (p->muted || text.n == 0) {
		return;
	}
	if (p->out_kind != kind) {
		kp_out_flush(p, true);
		p->out_kind = kind;
	}
	kp_buf_add(&p->out, text);
}

/* Visible text, and the white space that waited for it. Behind a call white space alone is markup; before text that follows text it is not. */
void kp_out_text(struct kp_parser *p, kp_str text)
{
	if (p->space.n) {
		if (p->has_text || p->n_calls == 0) {
			kp_out(p, KP_EV_TEXT, kp_buf_str(&p->space));
		}
		kp_buf_reset(&p->space);
	}
	p->has_text = true;
	kp_out(p, KP_EV_TEXT, text);
}

bool kp_all_space(kp_str s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (!kp_is_space(s.p[i])) {
			return false;
		}
	}
	return true;
}

void kp_text_again(struct kp_parser *p)
{
	bool channels = p->g && p->g->body == KP_BODY_CHANNELS;
	p->mode = channels ? KP_M_MESSAGE : KP_M_TEXT;
	p->message_kind = KP_EV_TEXT;
	p->body = channels ? KP_BODY_CHANNELS : p->body;
	p->skip_lines = 0;
}

/* --- text and thoughts -------------------------------------------------------------------------- */

static size_t skip_lines(struct kp_parser *p, kp_str run)
{
	size_t n = 0;
	while (p->skip_lines && n < run.n) {
		if (run.p[n] != '\n') {
			p->skip_lines = 0;
			break;
		}
		p->skip_lines--;
		n++;
	}
	return n;
}

static size_t text_data(struct kp_parser *p, kp_str run)
{
	size_t n = skip_lines(p, run);
	if (n) {
		return n;
	}
	bool may_begin =
		p->t && !p->has_text && !p->had_thought; /* a thought, behind white space */
	if (!p->g && !may_begin) {
		kp_out_text(p, run);
		return run.n;
	}
	while (n < run.n && kp_is_space(run.p[n])) {
		n++;
	}
	if (n) {
		kp_buf_add(&p->space, kp_str_sub(run, 0, n));
		return n;
	}
	if (p->g && p->g->start && !p->has_text && p->n_calls == 0 &&
		strchr(p->g->start, run.p[0]) && run.p[0]) {
		kp_calls_open(p, kp_str_sub(run, 0, 0), true);
		return 0;
	}
	while (n < run.n && !kp_is_space(run.p[n])) {
		n++;
	}
	/* White space between words goes along; what is at the end is held. */
	for (size_t at = n; at < run.n; at++) {
		n = kp_is_space(run.p[at]) ? n : at + 1;
	}
	kp_out_text(p, kp_str_sub(run, 0, n));
	return n;
}

static void think_open(struct kp_parser *p, kp_str text)
{
	if (p->mode ==
		KP_M_THOUGHT) { /* a second begin: markup only where the first one was the template's */
		if (p->had_thought) {
			kp_out(p, KP_EV_REASONING, text);
		}
		p->skip_lines = 1;
		return;
	}
	if (p->has_text) {
		kp_out(p, KP_EV_TEXT, kp_buf_str(&p->space));
	}
	kp_buf_reset(&p->space);
	p->mode = KP_M_THOUGHT;
	p->had_thought = true;
	p->skip_lines = 1;
}

static void text_mark(struct kp_parser *p, enum kp_mark kind, kp_str text)
{
	switch ((int)kind) {
	case KP_K_THINK_OPEN:
		think_open(p, text);
		break;
	case KP_K_THINK_CLOSE:
		kp_text_again(p);
		p->had_thought = true;
		p->skip_lines = 2;
		break;
	case KP_K_OPEN:
	case KP_K_CALL_OPEN:
		p->had_thought = true;
		kp_calls_open(p, text, false);
		if (kind == KP_K_CALL_OPEN) {
			p->in_section = false;
			kp_calls_next(p);
		}
		break;
	default: /* DROP */
		p->skip_lines = p->mode == KP_M_TEXT && !p->has_text ? 2 : p->skip_lines;
		break;
	}
}

/* --- to the mode's machine ---------------------------------------------------------------------- */

enum kp_set_name kp_parser_live(const struct kp_parser *p)
{
	static const enum kp_set_name sets[KP_N_MODES] = { [KP_M_TEXT] = KP_SET_TEXT,
		[KP_M_THOUGHT] = KP_SET_THOUGHT,
		[KP_M_CALLS] = KP_SET_CALLS,
		[KP_M_NAME] = KP_SET_NAME,
		[KP_M_ID] = KP_SET_ID,
		[KP_M_ARGS] = KP_SET_ARGS,
		[KP_M_BROKEN] = KP_SET_ARGS,
		[KP_M_AFTER] = KP_SET_AFTER,
		[KP_M_JSON] = KP_SET_CALLS,
		[KP_M_PARAMS] = KP_SET_PARAMS,
		[KP_M_KEY] = KP_SET_KEY,
		[KP_M_VALUE_OPEN] = KP_SET_VALUE_OPEN,
		[KP_M_VALUE] = KP_SET_VALUE,
		[KP_M_VALUE_AFTER] = KP_SET_VALUE_AFTER,
		[KP_M_KEY_GUESS] = KP_SET_KEY,
		[KP_M_PYTHON] = KP_SET_CALLS,
		[KP_M_BRACES] = KP_SET_BRACES,
		[KP_M_TYPE] = KP_SET_TYPE,
		[KP_M_TREE] = KP_SET_TREE,
		[KP_M_ELEMENT] = KP_SET_ELEMENT,
		[KP_M_LEAF] = KP_SET_TREE,
		[KP_M_HEADER] = KP_SET_HEADER,
		[KP_M_MESSAGE] = KP_SET_MESSAGE };
	if (p->body == KP_BODY_CHANNELS) {
		bool scanned = p->mode == KP_M_ARGS ||
			       (p->mode == KP_M_JSON &&
				       (p->envelope == KP_E_ARGS || p->envelope == KP_E_SKIP));
		bool string = (scanned && kp_jscan_in_string(&p->scan)) ||
			      (p->mode == KP_M_JSON &&
				      (p->envelope == KP_E_IN_KEY || p->envelope == KP_E_STRING));
		return p->mode == KP_M_HEADER ? KP_SET_HEADER
		       : string               ? KP_SET_STRING
					      : KP_SET_MESSAGE;
	}
	switch (p->mode) {
	case KP_M_TEXT:
		return p->has_text || p->n_calls || p->had_thought ? KP_SET_TEXT : KP_SET_BEGIN;
	case KP_M_ARGS:
		return kp_jscan_in_string(&p->scan) ? KP_SET_STRING : KP_SET_ARGS;
	case KP_M_JSON: {
		bool scanned = p->envelope == KP_E_ARGS || p->envelope == KP_E_SKIP;
		bool string = p->envelope == KP_E_IN_KEY || p->envelope == KP_E_STRING ||
			      (scanned && kp_jscan_in_string(&p->scan));
		return string ? KP_SET_STRING : KP_SET_CALLS;
	}
	case KP_M_PYTHON:
		return p->python == KP_PY_VALUE && kp_literal_in_string(&p->literal) ? KP_SET_STRING
										     : KP_SET_CALLS;
	case KP_M_BRACES:
		return kp_literal_in_string(&p->literal) ? KP_SET_QUOTED : KP_SET_BRACES;
	default:
		return sets[p->mode];
	}
}

size_t kp_parser_data(struct kp_parser *p, kp_str run, bool hidden)
{
	if (hidden) {
		p->n_dropped += run.n;
		return run.n;
	}
	if (p->mode == KP_M_TEXT) {
		return text_data(p, run);
	}
	if (p->mode == KP_M_THOUGHT) {
		size_t n = skip_lines(p, run);
		if (n == 0) {
			n = run.n;
			p->had_thought = true;
			kp_out(p, KP_EV_REASONING, run);
		}
		return n;
	}
	return p->body == KP_BODY_CHANNELS ? kp_channels_data(p, run) : kp_calls_data(p, run);
}

void kp_parser_mark(struct kp_parser *p, enum kp_mark kind, kp_str text)
{
	if (p->mode == KP_M_TEXT || p->mode == KP_M_THOUGHT) {
		text_mark(p, kind, text);
	} else if (p->body == KP_BODY_CHANNELS) {
		kp_channels_mark(p, kind, text);
	} else {
		kp_calls_mark(p, kind, text);
	}
}

static int result(struct kp_parser *p, struct kp_err *err)
{
	struct kp_buf *list[N_BUFFERS];
	for (size_t i = 0; i < KP_LEN(list); i++) {
		if (kp_buf_finish(buffers(p, list)[i], "what may be a tool call", err)) {
			return -1;
		}
	}
	return kp_buf_finish(&p->given, "parameter names of a tool call", err);
}

int kp_parser_feed(struct kp_parser *p, kp_str text, struct kp_err *err)
{
	kp_lex_push(p, text, false, false);
	return result(p, err);
}

int kp_parser_feed_control(struct kp_parser *p, kp_str text, bool hidden, struct kp_err *err)
{
	kp_lex_push(p, text, true, hidden);
	return result(p, err);
}

void kp_parser_flush(struct kp_parser *p)
{
	kp_out_flush(p, false);
}

int kp_parser_finish(struct kp_parser *p, bool truncated, struct kp_err *err)
{
	/* The beginning of a marker behind a complete call is markup that was cut. */
	bool cut = p->mode == KP_M_AFTER ||
		   (p->mode == KP_M_CALLS && p->n_calls > p->n_calls_before) ||
		   p->mode == KP_M_PARAMS || p->mode == KP_M_VALUE_AFTER ||
		   (p->mode == KP_M_VALUE && p->n_held > 1);
	if (cut) {
		p->n_dropped += p->n_held;
		p->n_held = 0;
	}
	kp_lex_settle(p, true);
	if (p->body == KP_BODY_CHANNELS) {
		kp_channels_finish(p, truncated);
	} else if (p->mode > KP_M_THOUGHT) {
		kp_calls_finish(p, truncated);
	}
	if (p->space.n && p->n_calls == 0) {
		kp_out(p, KP_EV_TEXT, kp_buf_str(&p->space));
	}
	kp_buf_reset(&p->space);
	kp_out_flush(p, true);
	return result(p, err);
}

size_t kp_parser_n_calls(const struct kp_parser *p)
{
	return p->n_calls;
}

bool kp_parser_in_thought(const struct kp_parser *p)
{
	return p->mode == KP_M_THOUGHT ||
	       (p->mode == KP_M_MESSAGE && p->message_kind == KP_EV_REASONING);
}

uint64_t kp_parser_n_dropped(const struct kp_parser *p)
{
	return p->n_dropped;
}

/* --- the prompt's end --------------------------------------------------------------------------- */

/* Behind the last of the texts, or -1. suffixed: what stands before the `:` of <think:6124c78e> counts. */
static ptrdiff_t last_of(kp_str hay, const char *const *texts, bool suffixed)
{
	ptrdiff_t best = -1;
	for (size_t i = 0; i < KP_MARKS && texts[i]; i++) {
		kp_str text = kp_str_c(texts[i]);
		text.n -= suffixed && kp_str_ends(text, KP_S(">"));
		for (size_t at = hay.n; at >= text.n; at--) {
			if (kp_str_ends(kp_str_sub(hay, 0, at), text)) {
				best = KP_MAX(best, (ptrdiff_t)at);
				break;
			}
		}
	}
	return best;
}

/* The last of the prompt, and what a client wrote replaced by what is no marker's. */
static kp_str tail_without_clients(const struct kp_text *prompt, char copy[KP_PARSE_TAIL])
{
	kp_str s = prompt->s;
	size_t from = s.n - KP_MIN(s.n, (size_t)KP_PARSE_TAIL), end = s.n;
	memcpy(copy, s.p + from, s.n - from);
	for (size_t i = prompt->n_runs; i-- && end > from;) {
		size_t begin = KP_MAX(i ? prompt->runs[i - 1].end : 0, from);
		if (prompt->runs[i].origin == KP_ORIGIN_CLIENT) {
			memset(copy + (begin - from), 0, end - begin);
		}
		end = begin;
	}
	return kp_str_n(copy, s.n - from);
}

/* The turn's begin may have a role in it that came with the message, so there a client's text counts: it is in front of what the template writes last. */
enum kp_parse_start kp_parse_start_of(const struct kp_thinking *t, const struct kp_text *prompt)
{
	char copy[KP_PARSE_TAIL];
	if (!t || !prompt->s.n) {
		return t ? KP_PARSE_AUTO : KP_PARSE_IN_TEXT;
	}
	kp_str tail = tail_without_clients(prompt, copy);
	ptrdiff_t turn = last_of(kp_str_skip(prompt->s, prompt->s.n - tail.n), t->turns, false);
	tail = kp_str_skip(tail, turn > 0 ? (size_t)turn : 0);
	ptrdiff_t open = last_of(tail, t->open, t->suffixed),
		  close = last_of(tail, t->close, t->suffixed);
	if (open < 0 && close < 0) {
		return KP_PARSE_AUTO;
	}
	return open > close ? KP_PARSE_IN_THOUGHT : KP_PARSE_IN_TEXT;
}

bool kp_parse_begins_in_thought(const struct kp_thinking *t, enum kp_parse_start start)
{
	return t && (start == KP_PARSE_IN_THOUGHT ||
			    (start == KP_PARSE_AUTO && t->opens && t->is_default));
}
