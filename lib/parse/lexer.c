/* DESIGN: a set of markers is compiled per state, once for a model. Bytes that may begin a live marker are held until they are one or cannot be one
   any more: exactly the longest suffix that is a proper prefix of a live marker. A marker whose text has added tokens of the vocabulary in it
   matches only where those bytes came from such tokens. The state may change with each byte or marker given out; what is still held is then looked at
   again under the new state's set. */
#include "parse/machine.h"

#include "base/arena.h"

static void add_text(struct kp_set *s, const char *before, const char *text, enum kp_mark kind,
	const kp_str *controls, size_t n)
{
	size_t n_before = strlen(before), n_text = strlen(text);
	KP_BUG_ON(s->n == KP_SET_MAX || n_before + n_text > KP_MARK_MAX || n_text == 0);
	struct kp_marker *m = &s->m[s->n++];
	*m = (struct kp_marker){ .kind = kind, .n = (uint8_t)(n_before + n_text) };
	memcpy(m->text, before, n_before);
	memcpy(m->text + n_before, text, n_text);
	for (size_t i = 0; i < m->n;) {
		size_t best = 0;
		for (size_t c = 0; c < n; c++) {
			bool fits = kp_str_starts(kp_str_n(m->text + i, m->n - i), controls[c]);
			best = fits && controls[c].n > best ? controls[c].n : best;
		}
		for (size_t k = 0; k < best; k++) {
			m->control |= UINT64_C(1) << (i + k);
		}
		i += best ? best : 1;
	}
	unsigned char c = (unsigned char)m->text[0];
	s->first[c / 64] |= UINT64_C(1) << (c % 64);
}

struct build {
	struct kp_set *sets;
	const kp_str *controls;
	size_t n;
};

static void add(
	const struct build *b, enum kp_set_name set, const char *const *texts, enum kp_mark kind)
{
	for (size_t i = 0; i < KP_MARKS && texts[i]; i++) {
		add_text(&b->sets[set], "", texts[i], kind, b->controls, b->n);
	}
}

static void add_one(
	const struct build *b, enum kp_set_name set, const char *text, enum kp_mark kind)
{
	if (text) {
		add_text(&b->sets[set], "", text, kind, b->controls, b->n);
	}
}

/* Only those of which a token is a part. */
static void add_controls(
	const struct build *b, enum kp_set_name set, const char *const *texts, enum kp_mark kind)
{
	struct kp_set *s = &b->sets[set];
	for (size_t i = 0; i < KP_MARKS && texts[i]; i++) {
		struct kp_set before = *s;
		add_text(s, "", texts[i], kind, b->controls, b->n);
		struct kp_marker *m = &s->m[s->n - 1];
		if (!m->control) {
			*s = before;
		} else if (set == KP_SET_STRING) {
			m->special = m->control;
		}
	}
}

static void add_lines(
	const struct build *b, enum kp_set_name set, const char *const *texts, enum kp_mark kind)
{
	for (size_t i = 0; i < KP_MARKS && texts[i]; i++) {
		add_text(&b->sets[set], "\n", texts[i], kind, b->controls, b->n);
	}
}

static void thoughts(const struct build *b, const struct kp_thinking *t)
{
	add(b, KP_SET_BEGIN, t->open, KP_K_THINK_OPEN);
	if (t->reopens) {
		add(b, KP_SET_TEXT, t->open, KP_K_THINK_OPEN);
	} else {
		add_controls(b, KP_SET_TEXT, t->open, KP_K_THINK_OPEN);
	}
	add_controls(b, KP_SET_BEGIN, t->close, KP_K_DROP);
	add_controls(b, KP_SET_TEXT, t->close, KP_K_DROP);
	add(b, KP_SET_BEGIN, t->drop, KP_K_DROP);
	add(b, KP_SET_TEXT, t->drop, KP_K_DROP);
	add(b, KP_SET_THOUGHT, t->open, KP_K_THINK_OPEN);
	add(b, KP_SET_THOUGHT, t->close, KP_K_THINK_CLOSE);
	if (!t->bare_lines) {
		add_lines(b, KP_SET_THOUGHT, t->close, KP_K_THINK_CLOSE);
	}
}

/* Where calls may begin. */
static void openings(const struct build *b, const struct kp_grammar *g)
{
	static const enum kp_set_name everywhere[] = { KP_SET_BEGIN, KP_SET_TEXT, KP_SET_THOUGHT };
	for (size_t i = 0; i < KP_LEN(everywhere); i++) {
		enum kp_set_name set = everywhere[i];
		bool thought = set == KP_SET_THOUGHT;
		if (thought && g->in_thought == KP_THOUGHT_NEVER) {
			continue;
		}
		if (thought && g->in_thought == KP_THOUGHT_CONTROL) {
			add_controls(b, set, g->open, KP_K_OPEN);
			continue;
		}
		add(b, set, g->open, KP_K_OPEN);
		if (g->loose && !thought) {
			add(b, set, g->call_open, KP_K_CALL_OPEN);
		}
		if (!thought) {
			add(b, set, g->drop, KP_K_DROP);
			add_controls(b, set, g->close, KP_K_DROP);
		}
	}
}

static void calls(const struct build *b, const struct kp_grammar *g)
{
	static const enum kp_set_name ends[] = { KP_SET_ARGS, KP_SET_AFTER };
	openings(b, g);
	add(b, KP_SET_CALLS, g->open, KP_K_OPEN);
	add(b, KP_SET_CALLS, g->close, KP_K_CLOSE);
	add(b, KP_SET_CALLS, g->call_open, KP_K_CALL_OPEN);
	add(b, KP_SET_NAME, g->name_end, KP_K_NAME_END);
	add_one(b, KP_SET_NAME, g->id_mark, KP_K_ID);
	add(b, KP_SET_NAME, g->call_close, KP_K_CALL_CLOSE);
	add(b, KP_SET_NAME, g->close, KP_K_CLOSE);
	if (g->head == KP_HEAD_PLAIN && g->value_open) {
		add(b, KP_SET_NAME, g->key_open, KP_K_KEY_OPEN);
	}
	add(b, KP_SET_ID, g->name_end, KP_K_NAME_END);
	for (size_t i = 0; i < KP_LEN(ends); i++) {
		add(b, ends[i], g->call_close, KP_K_CALL_CLOSE);
		add(b, ends[i], g->close, KP_K_CLOSE);
		add(b, ends[i], g->call_open, KP_K_CALL_OPEN);
		add(b, ends[i], g->open, KP_K_OPEN);
	}
	add_one(b, KP_SET_ARGS, g->fence_open, KP_K_FENCE);
	add_one(b, KP_SET_AFTER, g->fence_close, KP_K_FENCE);
	add_controls(b, KP_SET_STRING, g->call_close, KP_K_CALL_CLOSE);
	add_controls(b, KP_SET_STRING, g->close, KP_K_CLOSE);
	add_controls(b, KP_SET_STRING, g->call_open, KP_K_CALL_OPEN);
	add_controls(b, KP_SET_STRING, g->open, KP_K_OPEN);
	add_one(b, KP_SET_BRACES, g->quote, KP_K_QUOTE);
	add_one(b, KP_SET_QUOTED, g->quote, KP_K_QUOTE);
	add(b, KP_SET_BRACES, g->call_close, KP_K_CALL_CLOSE);
	add(b, KP_SET_BRACES, g->close, KP_K_CLOSE);
}

static void tags(const struct build *b, const struct kp_grammar *g)
{
	static const enum kp_set_name between[] = { KP_SET_PARAMS, KP_SET_VALUE_AFTER };
	for (size_t i = 0; i < KP_LEN(between); i++) {
		add(b, between[i], g->key_open, KP_K_KEY_OPEN);
		add(b, between[i], g->value_close, KP_K_VALUE_CLOSE);
		add(b, between[i], g->call_close, KP_K_CALL_CLOSE);
		add(b, between[i], g->close, KP_K_CLOSE);
		add(b, between[i], g->call_open, KP_K_CALL_OPEN);
		add(b, between[i], g->open, KP_K_OPEN);
	}
	add(b, KP_SET_KEY, g->key_end, KP_K_KEY_END);
	add_one(b, KP_SET_KEY, g->value_open, KP_K_VALUE_OPEN);
	add_one(b, KP_SET_VALUE_OPEN, g->value_open, KP_K_VALUE_OPEN);
	add(b, KP_SET_VALUE_OPEN, g->key_end, KP_K_KEY_END);
	add(b, KP_SET_VALUE, g->value_close, KP_K_VALUE_CLOSE);
	add(b, KP_SET_VALUE, g->key_open, KP_K_KEY_OPEN);
	add(b, KP_SET_VALUE, g->call_close, KP_K_CALL_CLOSE);
	if (g->call_close[0]) {
		add_controls(b, KP_SET_VALUE, g->close, KP_K_CLOSE);
	} else {
		add(b, KP_SET_VALUE, g->close, KP_K_CLOSE);
	}
	if (g->trim_lines) {
		add_lines(b, KP_SET_VALUE, g->value_close, KP_K_VALUE_CLOSE);
		add_lines(b, KP_SET_VALUE, g->call_close, KP_K_CALL_CLOSE);
		add_lines(b, KP_SET_VALUE, g->key_open, KP_K_KEY_OPEN);
	}
}

static void channels(const struct build *b)
{
	static const char *const end[] = { "<|end|>", "<|call|>", "<|return|>", NULL };
	static const char *const start[] = { "<|start|>", NULL };
	static const enum kp_set_name both[] = { KP_SET_HEADER, KP_SET_MESSAGE };
	for (size_t i = 0; i < KP_LEN(both); i++) {
		add_one(b, both[i], "<|start|>", KP_K_START);
		add_one(b, both[i], "<|channel|>", KP_K_CHANNEL);
		add_one(b, both[i], "<|message|>", KP_K_MESSAGE);
		add_one(b, both[i], "<|constrain|>", KP_K_CONSTRAIN);
		add(b, both[i], end, KP_K_END);
	}
	add_controls(b, KP_SET_STRING, end, KP_K_END);
	add_controls(b, KP_SET_STRING, start, KP_K_START);
}

static void build(const struct build *b, const struct kp_grammar *g, const struct kp_thinking *t)
{
	if (g && g->body == KP_BODY_CHANNELS) {
		channels(b);
		return;
	}
	if (t) {
		thoughts(b, t);
	}
	if (g) {
		calls(b, g);
		tags(b, g);
	}
}

int kp_lexicon_create(struct kp_arena *a, const struct kp_grammar *tools,
	const struct kp_thinking *thinking, const kp_str *controls, size_t n,
	const struct kp_lexicon **ret, struct kp_err *err)
{
	struct kp_lexicon *l = kp_arena_calloc(a, 1, sizeof(*l));
	if (!l) {
		return kp_arena_full(err, "markers");
	}
	l->tools = tools;
	l->thinking = thinking;
	build(&(struct build){ l->with_tools, controls, n }, tools, thinking);
	build(&(struct build){ l->without, controls, n }, NULL, thinking);
	*ret = l;
	return 0;
}

/* held against the live set: the longest marker it begins with; *ret_grows: it may become a (longer) one. */
static const struct kp_marker *match(
	const struct kp_parser *p, const struct kp_set *s, bool *ret_grows)
{
	const struct kp_marker *best = NULL;
	*ret_grows = false;
	for (size_t i = 0; i < s->n; i++) {
		const struct kp_marker *m = &s->m[i];
		size_t n = KP_MIN(m->n, p->n_held);
		uint64_t mask = n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1;
		if (memcmp(m->text, p->held, n) != 0 || (m->control & mask & ~p->held_control) ||
			(m->special & mask & ~p->held_hidden)) {
			continue;
		}
		if (m->n > p->n_held) {
			*ret_grows = true;
		} else if (!best || m->n > best->n) {
			best = m;
		}
	}
	return best;
}

static void drop_held(struct kp_parser *p, size_t n)
{
	p->n_held = (uint8_t)(p->n_held - n);
	memmove(p->held, p->held + n, p->n_held);
	p->held_control = n == 64 ? 0 : p->held_control >> n;
	p->held_hidden = n == 64 ? 0 : p->held_hidden >> n;
}

void kp_lex_settle(struct kp_parser *p, bool at_end)
{
	while (p->n_held) {
		bool grows;
		const struct kp_marker *m = match(p, &p->sets[kp_parser_live(p)], &grows);
		if (grows && !at_end) {
			return;
		}
		char text[KP_MARK_MAX];
		size_t n = m ? m->n : 1;
		bool hidden = p->held_hidden & 1;
		memcpy(text, p->held, n);
		if (m) {
			enum kp_mark kind = m->kind;
			drop_held(p, n);
			kp_parser_mark(p, kind, kp_str_n(text, n));
		} else if (kp_parser_data(p, kp_str_n(text, 1), hidden)) {
			drop_held(p, 1);
		}
	}
}

void kp_lex_push(struct kp_parser *p, kp_str text, bool control, bool hidden)
{
	while (text.n) {
		const uint64_t *first = p->sets[kp_parser_live(p)].first;
		size_t n = 0;
		while (p->n_held == 0 && n < text.n) {
			unsigned char c = (unsigned char)text.p[n];
			if (first[c / 64] >> (c % 64) & 1) {
				break;
			}
			n++;
		}
		if (n) {
			text = kp_str_skip(
				text, kp_parser_data(p, kp_str_sub(text, 0, n), control && hidden));
			continue;
		}
		uint64_t bit = UINT64_C(1) << p->n_held;
		p->held[p->n_held++] = text.p[0];
		p->held_control = control ? p->held_control | bit : p->held_control & ~bit;
		p->held_hidden = control && hidden ? p->held_hidden | bit : p->held_hidden & ~bit;
		text = kp_str_skip(text, 1);
		kp_lex_settle(p, false);
	}
}
