/* DESIGN: the filters made for pages rather than prompts: wordwrap (Python's textwrap), striptags, xmlattr. urlize and pprint are left out
   (they would need a URL grammar and Python's pretty printer), and so is random: rendering is a function of its input. */
#include "template/funcs.h"

#include "base/utf8.h"

#define FILTER(name)                                                                             \
	static int f_##name(struct kp_interp *I, const struct kp_tv *x, const struct kp_tv *arg, \
		struct kp_tv *ret)

/* --- wordwrap ------------------------------------------------------------------------------------------------------------------------- */

struct wrap {
	struct kp_interp *I;
	struct kp_tpl_buf *b;
	struct kp_tv line, sep; /* the paragraph; between wrapped lines */
	int64_t width;
	bool break_long, break_hyphens, any;
};
struct chunk { /* bytes of the line */
	uint32_t from, to;
	bool space;
};

static bool wrap_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool letter(uint32_t cp)
{
	return cp == '_' || (kp_ucd_is(cp, KP_UCD_ALNUM) && !kp_ucd_is(cp, KP_UCD_DECIMAL));
}

/* textwrap breaks behind a hyphen that has two letters (or letter, hyphen, letter) in front and two letters behind, a hyphen between
   which does not matter. */
static bool hyphen_break(kp_str s, uint32_t from, uint32_t at)
{
	uint32_t before[3] = { 0, 0, 0 }, after[3] = { 0, 0, 0 };
	size_t back = at, next = (size_t)at + 1;
	for (int i = 0; i < 3; i++) {
		back -= kp_utf8_decode_last(s.p + from, back - from, &before[i]);
		next += kp_utf8_decode(s.p + next, s.n - next, &after[i]);
	}
	return letter(before[0]) &&
	       (letter(before[1]) || (before[1] == '-' && letter(before[2]))) && letter(after[0]) &&
	       letter(after[1] == '-' ? after[2] : after[1]);
}

static struct chunk next_chunk(const struct wrap *w, uint32_t from)
{
	kp_str s = kp_tv_bytes(&w->line);
	struct chunk c = { .from = from, .to = from, .space = wrap_space(s.p[from]) };
	while (c.to < s.n && wrap_space(s.p[c.to]) == c.space) {
		bool cut = !c.space && w->break_hyphens && s.p[c.to] == '-' &&
			   hyphen_break(s, from, c.to);
		c.to++;
		if (cut) {
			break;
		}
	}
	return c;
}

static int64_t chars(const struct wrap *w, uint32_t from, uint32_t to)
{
	return (int64_t)kp_tpl_cp_count(kp_str_sub(kp_tv_bytes(&w->line), from, to));
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

/* One paragraph: chunks are laid on lines as long as they fit; white space at a line's ends is dropped (but not at the paragraph's start). */
static int wrap_line(struct wrap *w)
{
	uint32_t n = w->line.n, at = 0, from = 0,
		 to = 0; /* the line being filled is bytes [from, to) */
	int64_t used = 0;
	bool empty = true,
	     full; /* full: the last thing on the line is a piece of a word, perhaps an empty one */
	w->any = false;
	while (at < n) {
		struct chunk c = next_chunk(w, at);
		int64_t len = chars(w, c.from, c.to);
		if (kp_tpl_charge(w->I, 1)) {
			return -1;
		}
		if (empty && c.space && w->any) { /* at the start of a later line */
			at = c.to;
			continue;
		}
		if (used + len <= w->width) {
			from = empty ? c.from : from;
			to = at = c.to;
			used += len;
			empty = false;
			continue;
		}
		full = len > w->width && (w->break_long || empty);
		if (full) { /* fits on no line */
			int64_t room = w->break_long
					       ? KP_MAX(w->width - used, (int64_t)(empty ? 1 : 0))
					       : len;
			uint32_t cut = c.from + kp_tpl_cp_offset(kp_str_sub(kp_tv_bytes(&w->line),
									 c.from, c.to),
							(size_t)room);
			from = empty ? c.from : from;
			to = at = cut;
			empty = false;
		}
		kp_str text = kp_tv_bytes(&w->line);
		uint32_t end = to;
		while (!(full && !c.space) && end > from && wrap_space(text.p[end - 1])) {
			end--;
		}
		if (!empty && end > from && put_line(w, from, end)) {
			return -1;
		}
		empty = true;
		used = 0;
	}
	kp_str text = kp_tv_bytes(&w->line);
	while (to > from && wrap_space(text.p[to - 1])) {
		to--;
	}
	return !empty && to > from ? put_line(w, from, to) : 0;
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
