/* DESIGN: the filters made for pages rather than prompts: wordwrap (Python's textwrap), striptags, xmlattr. urlize and pprint are left out
   (they would need a URL grammar and Python's pretty printer), and so is random: rendering is a function of its input. */
#include "template/funcs.h"

#include "base/utf8.h"

#define FILTER(name)                                                                             \
	static int f_##name(struct kp_interp *I, const struct kp_tv *x, const struct kp_tv *arg, \
		struct kp_tv *ret)

/* --- wordwrap ------------------------------------------------------------------------------------------------------------------------- */

struct chunk { /* bytes of the line */
	uint32_t from, to;
};
struct wrap {
	struct kp_interp *I;
	struct kp_tpl_buf *b;
	struct kp_tv line, sep; /* the paragraph; between wrapped lines */
	int64_t width;
	struct chunk *chunks; /* of the paragraph */
	uint32_t n, at, cap;
	bool break_long, split_hyphens, break_hyphens, any;
};

static bool wrap_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool letter(uint32_t cp) /* [^\d\W] */
{
	return cp == '_' || (kp_ucd_is(cp, KP_UCD_ALNUM) && !kp_ucd_is(cp, KP_UCD_DECIMAL));
}

static uint32_t before(kp_str s, uint32_t at)
{
	uint32_t cp = 0;
	kp_utf8_decode_last(s.p, at, &cp);
	return cp;
}

/* Behind the hyphen at `at`: two letters (or letter, hyphen, letter) in front, two letters behind, a hyphen between which does not
   matter. */
static bool hyphen_break(kp_str s, uint32_t at)
{
	uint32_t front[3] = { 0, 0, 0 }, after[3] = { 0, 0, 0 };
	size_t back = at, next = (size_t)at + 1;
	for (int i = 0; i < 3; i++) {
		back -= kp_utf8_decode_last(s.p, back, &front[i]);
		next += kp_utf8_decode(s.p + next, s.n - next, &after[i]);
	}
	return letter(front[0]) && (letter(front[1]) || (front[1] == '-' && letter(front[2]))) &&
	       letter(after[0]) && letter(after[1] == '-' ? after[2] : after[1]);
}

/* The end of the hyphens at `at` when they are a dash between words: two or more, a letter, digit or punctuation in front, a letter or
   digit behind. Else `at`. */
static uint32_t dash_end(kp_str s, uint32_t at)
{
	uint32_t end = at, cp = before(s, at), after = 0;
	bool word = cp == '_' || kp_ucd_is(cp, KP_UCD_ALNUM) ||
		    (cp && cp < 128 && strchr("!\"'&.,?", (int)cp));
	if (!word) {
		return at;
	}
	while (end < s.n && s.p[end] == '-') {
		end++;
	}
	kp_utf8_decode(s.p + end, s.n - end, &after);
	return end - at >= 2 && (after == '_' || kp_ucd_is(after, KP_UCD_ALNUM)) ? end : at;
}

/* textwrap's wordsep_re, or wordsep_simple_re: where the chunk that starts at `from` ends. */
static uint32_t chunk_end(const struct wrap *w, kp_str s, uint32_t from)
{
	bool space = wrap_space(s.p[from]);
	uint32_t to = from;
	if (w->split_hyphens && s.p[from] == '-' && dash_end(s, from) > from) {
		return dash_end(s, from);
	}
	while (to < s.n && wrap_space(s.p[to]) == space) {
		to++;
		if (space || !w->split_hyphens || to == s.n || s.p[to] != '-') {
			continue;
		}
		if (hyphen_break(s, to)) {
			return to + 1;
		}
		if (dash_end(s, to) > to) {
			break;
		}
	}
	return to;
}

static int split(struct wrap *w)
{
	kp_str s = kp_tv_bytes(&w->line);
	w->n = w->at = 0;
	for (uint32_t from = 0; from < s.n; w->n++) {
		if (w->n == w->cap) {
			uint32_t cap = w->cap ? 2 * w->cap : 64;
			struct chunk *more = kp_tpl_alloc(w->I, cap, sizeof(*more));
			if (!more) {
				return -1;
			}
			if (w->n) {
				memcpy(more, w->chunks, w->n * sizeof(*more));
			}
			w->chunks = more;
			w->cap = cap;
		}
		uint32_t to = chunk_end(w, s, from);
		w->chunks[w->n] = (struct chunk){ from, to };
		from = to;
	}
	return kp_tpl_charge(w->I, w->n);
}

static kp_str chunk_text(const struct wrap *w, struct chunk c)
{
	return kp_str_sub(kp_tv_bytes(&w->line), c.from, c.to);
}

/* Code points, or the line's width + 1 if there are more: a long word is looked at once for each of its lines. */
static int64_t chars(const struct wrap *w, struct chunk c)
{
	kp_str s = chunk_text(w, c);
	int64_t n = 0;
	for (size_t i = 0; i < s.n && n <= w->width; i++) {
		n += ((unsigned char)s.p[i] & 0xc0) != 0x80;
	}
	return n;
}

/* Python's strip() leaves nothing. */
static bool blank(const struct wrap *w, struct chunk c)
{
	kp_str s = chunk_text(w, c);
	for (size_t i = 0; i < s.n;) {
		uint32_t cp = 0;
		i += kp_utf8_decode(s.p + i, s.n - i, &cp);
		if (!kp_ucd_is(cp, KP_UCD_SPACE)) {
			return false;
		}
	}
	return true;
}

/* How much of a chunk that fits on no line goes on this one: bytes. Up to its last hyphen, if something else is in front of it. */
static uint32_t break_chunk(const struct wrap *w, struct chunk c, int64_t room)
{
	kp_str s = chunk_text(w, c);
	uint32_t end = kp_tpl_cp_offset(s, (size_t)KP_MAX(room, (int64_t)0)), hyphen = end;
	while (w->break_hyphens && hyphen > 0 && s.p[hyphen - 1] != '-') {
		hyphen--;
	}
	for (uint32_t i = 0; w->break_hyphens && i + 1 < hyphen; i++) {
		if (s.p[i] != '-') {
			return hyphen;
		}
	}
	return end;
}

static int put_line(struct wrap *w, uint32_t from, uint32_t to)
{
	if ((w->any && kp_tpl_buf_add_str(w->I, w->b, &w->sep)) ||
		kp_tpl_buf_add_sub(w->I, w->b, &w->line, from, to)) {
		return -1;
	}
	w->any = true;
	return 0;
}

/* Lays chunks on one line as long as they fit. A white chunk at a line's end is dropped, at its start too (but not the paragraph's). */
static int fill_line(struct wrap *w)
{
	int64_t used = 0;
	struct chunk last = { 0, 0 };
	bool any = false;
	if (w->any && blank(w, w->chunks[w->at])) {
		w->at++;
	}
	uint32_t from = w->at < w->n ? w->chunks[w->at].from : 0;
	while (w->at < w->n && used + chars(w, w->chunks[w->at]) <= w->width) {
		last = w->chunks[w->at++];
		used += chars(w, last);
		any = true;
	}
	struct chunk *next = &w->chunks[w->at];
	if (w->at < w->n && chars(w, *next) > w->width) { /* it is longer than a line */
		if (w->break_long) {
			last = (struct chunk){ next->from,
				next->from + break_chunk(w, *next, w->width - used) };
			next->from = last.to;
			any = true;
		} else if (!any) {
			last = *next;
			w->at++;
			any = true;
		}
	}
	uint32_t to = any && blank(w, last) ? last.from : last.to;
	return any && to > from ? put_line(w, from, to) : 0;
}

/* One paragraph. */
static int wrap_line(struct wrap *w)
{
	w->any = false;
	if (split(w)) {
		return -1;
	}
	while (w->at < w->n) {
		if (kp_tpl_charge(w->I, 1) || fill_line(w)) {
			return -1;
		}
	}
	return 0;
}

/* wordwrap(s, width=79, break_long_words=True, wrapstring=None, break_on_hyphens=True) */
FILTER(wordwrap)
{
	struct wrap w = { .I = I, .sep = kp_tv_str(KP_S("\n"), x->origin) };
	struct kp_tv lines;
	if (kp_tpl_arg_str(I, x) || kp_tpl_arg_int(I, &arg[0], 79, &w.width) ||
		(!kp_tv_absent(&arg[2]) && kp_tpl_arg_str(I, &arg[2]))) {
		return -1;
	}
	if (w.width <= 0) {
		return kp_tpl_fail(I, "invalid width %lld (must be > 0)", (long long)w.width);
	}
	w.break_long = arg[1].type == KP_TV_MISSING || kp_tv_truth(&arg[1]);
	w.break_hyphens = arg[3].type == KP_TV_MISSING || kp_tv_truth(&arg[3]);
	w.split_hyphens =
		w.break_hyphens && (arg[3].type == KP_TV_MISSING || arg[3].type == KP_TV_BOOL);
	w.sep = kp_tv_absent(&arg[2]) ? w.sep : arg[2];
	if (kp_tpl_str_splitlines(I, x, false, &lines) || kp_tpl_charge(I, x->n / 2) ||
		kp_tpl_buf_new(I, x->n, &w.b)) {
		return -1;
	}
	for (uint32_t i = 0; i < lines.n; i++) {
		w.line = lines.items[i];
		if ((i && kp_tpl_buf_add_str(I, w.b, &w.sep)) || wrap_line(&w)) {
			return -1;
		}
	}
	*ret = kp_tpl_buf_value(w.b);
	return 0;
}

/* --- markup --------------------------------------------------------------------------------------------------------------------------- */

struct entity {
	const char *name;
	uint32_t cp;
};

/* The few entities that templates write; others stay as they are. */
static size_t entity_at(kp_str s, size_t at, uint32_t *ret_cp)
{
	static const struct entity named[] = { { "&amp;", '&' }, { "&lt;", '<' }, { "&gt;", '>' },
		{ "&quot;", '"' }, { "&apos;", '\'' }, { "&#39;", '\'' }, { "&#34;", '"' },
		{ "&nbsp;", 0xa0 } };
	for (size_t i = 0; i < KP_LEN(named); i++) {
		if (kp_str_starts(kp_str_skip(s, at), kp_str_c(named[i].name))) {
			*ret_cp = named[i].cp;
			return strlen(named[i].name);
		}
	}
	return 0;
}

/* Comments and tags out, white space to single spaces, entities back to characters. */
FILTER(striptags)
{
	(void)arg;
	struct kp_tv s;
	struct kp_tpl_buf *a, *b;
	if (kp_tpl_to_str(I, x, &s) || kp_tpl_charge(I, s.n / 4) || kp_tpl_buf_new(I, s.n, &a) ||
		kp_tpl_buf_new(I, s.n, &b)) {
		return -1;
	}
	for (int pass = 0; pass < 2; pass++) { /* comments first, then tags */
		kp_str t = kp_tv_bytes(&s), open = pass ? KP_S("<") : KP_S("<!--"),
		       close = pass ? KP_S(">") : KP_S("-->");
		struct kp_tpl_buf *out = pass ? b : a;
		size_t at = 0;
		ptrdiff_t from, to;
		while ((from = kp_str_find(kp_str_skip(t, at), open)) >= 0 &&
			(to = kp_str_find(kp_str_skip(t, at + (size_t)from), close)) >= 0) {
			if (kp_tpl_charge(I, 1) || kp_tpl_buf_add_sub(I, out, &s, (uint32_t)at,
							   (uint32_t)(at + (size_t)from))) {
				return -1;
			}
			at += (size_t)from + (size_t)to + close.n;
		}
		if (kp_tpl_buf_add_sub(I, out, &s, (uint32_t)at, s.n)) {
			return -1;
		}
		s = kp_tpl_buf_value(out);
	}
	kp_str t = kp_tv_bytes(&s);
	struct kp_tpl_buf *out;
	uint32_t cursor = 0, cp;
	bool gap = false;
	if (kp_tpl_buf_new(I, t.n, &out)) {
		return -1;
	}
	for (size_t i = 0, len; i < t.n; i += len) {
		len = kp_utf8_decode(t.p + i, t.n - i, &cp);
		if (kp_ucd_space(cp)) {
			gap = out->n > 0;
			continue;
		}
		uint8_t origin = kp_tpl_str_origin(&s, (uint32_t)i, &cursor);
		size_t entity = cp == '&' ? entity_at(t, i, &cp) : 0;
		len = entity ? entity : len;
		if ((gap && kp_tpl_buf_add(I, out, KP_S(" "), origin)) ||
			kp_tpl_buf_cp(I, out, cp, origin)) {
			return -1;
		}
		gap = false;
	}
	*ret = kp_tpl_buf_value(out);
	return 0;
}

/* xmlattr(d, autospace=True) */
FILTER(xmlattr)
{
	struct kp_tpl_buf *b;
	if (x->type != KP_TV_DICT) {
		return x->type == KP_TV_UNDEF
			       ? kp_tpl_fail_undef(I, x)
			       : kp_tpl_fail(I, "'%s' object has no attribute 'items'",
					 kp_tv_type_name(x));
	}
	bool space = arg[0].type == KP_TV_MISSING || kp_tv_truth(&arg[0]);
	if (kp_tpl_buf_new(I, 0, &b)) {
		return -1;
	}
	for (uint32_t i = 0; i < kp_tv_dict_n(x); i++) {
		struct kp_tv k, v;
		kp_tv_dict_at(x, i, &k, &v);
		if (v.type == KP_TV_NONE || v.type == KP_TV_UNDEF) {
			continue;
		}
		if (k.type != KP_TV_STR) {
			return kp_tpl_fail(I, "expected string or bytes-like object, got '%s'",
				kp_tv_type_name(&k));
		}
		kp_str key = kp_tv_bytes(&k);
		for (size_t c = 0; c < key.n; c++) {
			if (wrap_space(key.p[c]) || key.p[c] == '/' || key.p[c] == '>' ||
				key.p[c] == '=') {
				return kp_tpl_fail(I,
					"Invalid character in attribute name: '%" KP_FMT "'",
					KP_ARG(key));
			}
		}
		if (((b->n || space) && kp_tpl_buf_add(I, b, KP_S(" "), x->origin)) ||
			kp_tpl_escape(I, &k, &k) || kp_tpl_escape(I, &v, &v) ||
			kp_tpl_buf_add_str(I, b, &k) ||
			kp_tpl_buf_add(I, b, KP_S("=\""), x->origin) ||
			kp_tpl_buf_add_str(I, b, &v) ||
			kp_tpl_buf_add(I, b, KP_S("\""), x->origin)) {
			return -1;
		}
	}
	*ret = kp_tpl_buf_value(b);
	return 0;
}

const struct kp_tpl_def kp_tpl_filters_layout[] = {
	{ .name = "wordwrap",
		.fn = f_wordwrap,
		.params = { "width", "break_long_words", "wrapstring", "break_on_hyphens" } },
	{ .name = "striptags", .fn = f_striptags },
	{ .name = "xmlattr", .fn = f_xmlattr, .params = { "autospace" } },
};
const size_t kp_tpl_n_filters_layout = KP_LEN(kp_tpl_filters_layout);
