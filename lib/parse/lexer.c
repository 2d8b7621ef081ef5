/* DESIGN: a set of markers is compiled per state, once for a model. Bytes that may begin a live marker are held until they are one or cannot be one
   any more: exactly the longest suffix that is a proper prefix of a live marker. A marker whose text has added tokens of the vocabulary in it
   matches only where those bytes came from such tokens. Where a family's markers have a suffix (<tool_calls:6124c78e>), it is the vocabulary's, or, when that is
   not known, the one of the first marker that the answer has. The state may change with each byte or marker given out; what is still held is then looked at
   again under the new state's set. */
#include "parse/machine.h"

#include "base/arena.h"

struct build {
	struct kp_set *sets;
	const kp_str *controls;
	size_t n;
	bool suffixed;
	kp_str suffix; /* of the vocabulary; KP_STR_NULL: not known */
};

static void add_text(const struct build *b, struct kp_set *s, const char *before, const char *text,
	enum kp_mark kind)
{
	size_t n_before = strlen(before), n_text = strlen(text);
	const kp_str *controls = b->controls;
	size_t n = b->n;
	bool suffixed = b->suffixed && n_text > 2 && text[0] == '<' && text[n_text - 1] == '>';
	kp_str suffix = suffixed ? b->suffix : KP_STR_NULL;
	KP_BUG_ON(s->n == KP_SET_MAX || n_before + n_text + suffix.n > KP_MARK_MAX || n_text == 0);
	struct kp_marker *m = &s->m[s->n++];
	*m = (struct kp_marker){ .kind = kind, .n = (uint8_t)(n_before + n_text + suffix.n) };
	m->suffixed = suffixed && !suffix.p;
	memcpy(m->text, before, n_before);
	memcpy(m->text + n_before, text, n_text);
	if (suffix.n) {
		memcpy(m->text + n_before + n_text - 1, suffix.p, suffix.n);
		m->text[m->n - 1] = '>';
	}
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
	const char *word = memchr(m->text, 1, m->n);
	m->word = word ? (uint8_t)(word - m->text) : 0;
	unsigned char c = (unsigned char)m->text[0];
	s->first[c / 64] |= UINT64_C(1) << (c % 64);
}

static void add(
	const struct build *b, enum kp_set_name set, const char *const *texts, enum kp_mark kind)
{
	for (size_t i = 0; i < KP_MARKS && texts[i]; i++) {
		add_text(b, &b->sets[set], "", texts[i], kind);
	}
}

static void add_one(
	const struct build *b, enum kp_set_name set, const char *text, enum kp_mark kind)
{
	if (text) {
		add_text(b, &b->sets[set], "", text, kind);
	}
}

/* Only those of which a token is a part. */
static void add_controls(
	const struct build *b, enum kp_set_name set, const char *const *texts, enum kp_mark kind)
{
	struct kp_set *s = &b->sets[set];
	for (size_t i = 0; i < KP_MARKS && texts[i]; i++) {
		struct kp_set before = *s;
		add_text(b, s, "", texts[i], kind);
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
		add_text(b, &b->sets[set], "\n", texts[i], kind);
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
	add(b, KP_SET_CALLS, g->call_close, KP_K_CALL_CLOSE); /* behind an object */
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
	add_one(b, KP_SET_VALUE_OPEN, g->type_open, KP_K_TYPE_OPEN);
	add_one(b, KP_SET_TYPE, g->type_close, KP_K_TYPE_CLOSE);
	add_one(b, KP_SET_TYPE, g->value_open, KP_K_VALUE_OPEN);
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

static void tree(const struct build *b, const struct kp_grammar *g)
{
	add_one(b, KP_SET_TREE, g->element, KP_K_ELEMENT);
	add_one(b, KP_SET_ELEMENT, g->element, KP_K_ELEMENT);
	if (g->element) {
		add(b, KP_SET_TREE, g->call_close, KP_K_CALL_CLOSE);
		add(b, KP_SET_TREE, g->close, KP_K_CLOSE);
	}
}

static void channels(const struct build *b, const struct kp_grammar *g)
{
	static const char *const harmony_end[] = { "<|end|>", "<|call|>", "<|return|>", NULL };
	static const char *const harmony_kinds[] = { "<|message|>", NULL };
	static const enum kp_set_name both[] = { KP_SET_HEADER, KP_SET_MESSAGE };
	const char *start = g->message ? g->message : "<|start|>";
	const char *const *kinds = g->message ? g->kinds : harmony_kinds;
	const char *const *end = g->message ? g->end : harmony_end;
	for (size_t i = 0; i < KP_LEN(both); i++) {
		add_one(b, both[i], start, KP_K_START);
		add(b, both[i], kinds, KP_K_MESSAGE);
		add(b, both[i], end, KP_K_END);
		if (!g->message) {
			add_one(b, both[i], "<|channel|>", KP_K_CHANNEL);
			add_one(b, both[i], "<|constrain|>", KP_K_CONSTRAIN);
		}
	}
	add_controls(b, KP_SET_STRING, end, KP_K_END);
	add_controls(b, KP_SET_STRING, (const char *const[]){ start, NULL }, KP_K_START);
}

/* The suffix in the vocabulary: of a token that is one of the texts but for it. */
static kp_str find_suffix(const struct build *b, const char *const *texts)
{
	for (size_t i = 0; i < b->n; i++) {
		kp_str token = b->controls[i];
		ptrdiff_t colon = kp_str_find_char(token, ':');
		for (size_t k = 0; k < KP_MARKS && texts[k]; k++) {
			kp_str text = kp_str_c(texts[k]);
			if (kp_str_eq(token, text)) {
				return KP_S("");
			}
			if (colon > 0 && kp_str_ends(token, KP_S(">")) &&
				kp_str_eq(kp_str_sub(token, 0, (size_t)colon),
					kp_str_sub(text, 0, text.n - 1)) &&
				token.n - (size_t)colon - 1 <= KP_SUFFIX_MAX) {
				return kp_str_sub(token, (size_t)colon, token.n - 1);
			}
		}
	}
	return KP_STR_NULL;
}

static void build(struct build b, const struct kp_grammar *g, const struct kp_thinking *t)
{
	if (g && g->body == KP_BODY_CHANNELS) {
		channels(&b, g);
		return;
	}
	if (t) {
		b.suffixed = t->suffixed;
		b.suffix = t->suffixed ? find_suffix(&b, t->open) : KP_STR_NULL;
		thoughts(&b, t);
	}
	if (g) {
		b.suffixed = g->suffixed;
		b.suffix = g->suffixed ? find_suffix(&b, g->open) : KP_STR_NULL;
		calls(&b, g);
		tags(&b, g);
		tree(&b, g);
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
	build((struct build){ .sets = l->with_tools, .controls = controls, .n = n }, tools,
		thinking);
	build((struct build){ .sets = l->without, .controls = controls, .n = n }, NULL, thinking);
	*ret = l;
	return 0;
}

static bool is_word(char c)
{
	return kp_is_digit(c) || (kp_lower(c) >= 'a' && kp_lower(c) <= 'z') || c == '_' ||
	       c == '-' || c == '.';
}

/* A marker that may have a suffix, against what is held. Returns how long it is there, 0: it is not (yet). The suffix of the answer is that of its first marker. */
static size_t fits_suffixed(const struct kp_parser *p, const struct kp_marker *m, bool *ret_grows)
{
	size_t stem = m->n - 1u, n = KP_MIN(stem, p->n_held);
	if (memcmp(m->text, p->held, n) != 0) {
		return 0;
	}
	for (; n < p->n_held; n++) {
		char c = p->held[n];
		if (c == '>') {
			kp_str suffix = kp_str_n(p->held + stem, n - stem);
			return !p->has_suffix || kp_str_eq(suffix, kp_str_n(p->suffix, p->n_suffix))
				       ? n + 1
				       : 0;
		}
		if (n == stem ? c != ':' : !is_word(c) || n - stem > KP_SUFFIX_MAX) {
			return 0;
		}
	}
	*ret_grows = true;
	return 0;
}

/* As above, a marker with a word in it: as long as leaves room for what is behind it. */
static size_t fits_word(const struct kp_parser *p, const struct kp_marker *m, bool *ret_grows)
{
	const char *tail = m->text + m->word + 1;
	size_t n_tail = m->n - m->word - 1u, i = m->word;
	if (memcmp(m->text, p->held, KP_MIN(i, p->n_held)) != 0) {
		return 0;
	}
	while (i < p->n_held && is_word(p->held[i])) {
		i++;
	}
	bool has_word = p->n_held <= m->word || i > m->word;
	if (!has_word || i + n_tail > KP_MARK_MAX) {
		return 0;
	}
	size_t n = p->n_held > i ? KP_MIN(n_tail, p->n_held - i) : 0;
	for (size_t k = 0; k < n; k++) {
		bool other = m->control && !(p->held_control >> (i + k) & 1);
		if (tail[k] != p->held[i + k] || other) {
			return 0;
		}
	}
	*ret_grows = *ret_grows || n < n_tail;
	return n == n_tail ? i + n_tail : 0;
}

static void learn_suffix(struct kp_parser *p, const struct kp_marker *m, kp_str text)
{
	if (m->suffixed && !p->has_suffix) {
		size_t stem = m->n - 1u;
		p->n_suffix = (uint8_t)(text.n - 1 - stem);
		memcpy(p->suffix, text.p + stem, p->n_suffix);
		p->has_suffix = true;
	}
}

/* held against the live set: the longest marker it begins with; *ret_grows: it may become a (longer) one. */
static const struct kp_marker *match(
	const struct kp_parser *p, const struct kp_set *s, bool *ret_grows, size_t *ret_n)
{
	const struct kp_marker *best = NULL;
	*ret_grows = false;
	*ret_n = 1;
	for (size_t i = 0; i < s->n; i++) {
		const struct kp_marker *m = &s->m[i];
		if (m->suffixed || m->word) {
			size_t is = m->suffixed ? fits_suffixed(p, m, ret_grows)
						: fits_word(p, m, ret_grows);
			if (is && (!best || is > *ret_n)) {
				best = m;
				*ret_n = is;
			}
			continue;
		}
		size_t n = KP_MIN(m->n, p->n_held);
		uint64_t mask = n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1;
		if (memcmp(m->text, p->held, n) != 0 || (m->control & mask & ~p->held_control) ||
			(m->special & mask & ~p->held_hidden)) {
			continue;
		}
		if (m->n > p->n_held) {
			*ret_grows = true;
		} else if (!best || m->n > *ret_n) {
			best = m;
			*ret_n = m->n;
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
		size_t n;
		const struct kp_marker *m = match(p, &p->sets[kp_parser_live(p)], &grows, &n);
		if (grows && !at_end) {
			return;
		}
		char text[KP_MARK_MAX];
		bool hidden = p->held_hidden & 1;
		memcpy(text, p->held, n);
		if (m) {
			enum kp_mark kind = m->kind;
			learn_suffix(p, m, kp_str_n(text, n));
			drop_held(p, n);
			kp_parser_mark(p, kind, kp_str_n(text, n));
		} else if (kp_parser_data(p, kp_str_n(text, 1), hidden)) {
			drop_held(p, 1);
		}
	}
}

/* What is searched for the next marker is not more than twice what was taken before: a piece that is taken byte by byte costs no search of all of it for each. */
void kp_lex_push(struct kp_parser *p, kp_str text, bool control, bool hidden)
{
	size_t ahead = KP_MARK_MAX;
	while (text.n) {
		const uint64_t *first = p->sets[kp_parser_live(p)].first;
		size_t n = 0, end = p->n_held ? 0 : KP_MIN(ahead, text.n);
		while (n < end) {
			unsigned char c = (unsigned char)text.p[n];
			if (first[c / 64] >> (c % 64) & 1) {
				break;
			}
			n++;
		}
		if (n) {
			size_t taken = kp_parser_data(p, kp_str_sub(text, 0, n), control && hidden);
			ahead = KP_MAX(2 * taken, (size_t)KP_MARK_MAX);
			text = kp_str_skip(text, taken);
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
