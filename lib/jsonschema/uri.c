/* DESIGN: RFC 3986: the five parts of a reference (appendix B), put together with a base's (section 5.2.2), dots taken out of the path (5.2.4). */
#include "jsonschema/internal.h"

struct uri {
	kp_str scheme, authority, path, query, fragment; /* p NULL: not there */
};

static size_t until(kp_str s, size_t at, const char *stops)
{
	while (at < s.n && !strchr(stops, s.p[at])) {
		at++;
	}
	return at;
}

static bool is_scheme(kp_str s)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = kp_lower(s.p[i]);
		if (!(c >= 'a' && c <= 'z') &&
			(i == 0 || !(kp_is_digit(c) || c == '+' || c == '-' || c == '.'))) {
			return false;
		}
	}
	return s.n > 0;
}

static struct uri split(kp_str s)
{
	struct uri u = { .path = { "", 0 } };
	size_t end = until(s, 0, ":/?#");
	if (end < s.n && s.p[end] == ':' && is_scheme(kp_str_sub(s, 0, end))) {
		u.scheme = kp_str_sub(s, 0, end);
		s = kp_str_skip(s, end + 1);
	}
	if (kp_str_starts(s, KP_S("//"))) {
		end = until(s, 2, "/?#");
		u.authority = kp_str_sub(s, 2, end);
		s = kp_str_skip(s, end);
	}
	end = until(s, 0, "?#");
	u.path = kp_str_sub(s, 0, end);
	s = kp_str_skip(s, end);
	if (s.n && s.p[0] == '?') {
		end = until(s, 0, "#");
		u.query = kp_str_sub(s, 1, end);
		s = kp_str_skip(s, end);
	}
	if (s.n) {
		u.fragment = kp_str_skip(s, 1);
	}
	return u;
}

/* Takes the last segment and its slash off what was written of the path since `from`. */
static void drop_segment(struct kp_buf *out, size_t from)
{
	while (out->n > from && out->p[out->n - 1] != '/') {
		out->n--;
	}
	out->n -= out->n > from;
}

static void add_path(struct kp_buf *out, kp_str path)
{
	size_t from = out->n;
	while (path.n) {
		if (kp_str_starts(path, KP_S("../"))) {
			path = kp_str_skip(path, 3);
		} else if (kp_str_starts(path, KP_S("./")) || kp_str_starts(path, KP_S("/./"))) {
			path = kp_str_skip(path, 2);
		} else if (kp_str_eq(path, KP_S("/.")) || kp_str_eq(path, KP_S("/.."))) {
			if (path.n == 3) {
				drop_segment(out, from);
			}
			path = KP_S("/");
		} else if (kp_str_starts(path, KP_S("/../"))) {
			path = kp_str_skip(path, 3);
			drop_segment(out, from);
		} else if (kp_str_eq(path, KP_S(".")) || kp_str_eq(path, KP_S(".."))) {
			break;
		} else {
			size_t end = until(path, 1, "/");
			kp_buf_add(out, kp_str_sub(path, 0, end));
			path = kp_str_skip(path, end);
		}
	}
}

static void add_part(struct kp_buf *out, const char *before, kp_str part, const char *behind)
{
	if (part.p) {
		kp_buf_addz(out, before);
		kp_buf_add(out, part);
		kp_buf_addz(out, behind);
	}
}

/* The path of `ref`, relative to that of `base`. */
static void add_merged(struct kp_buf *out, const struct uri *base, kp_str ref)
{
	ptrdiff_t slash = kp_str_rfind_char(base->path, '/');
	char *merged = kp_xmalloc(base->path.n + ref.n + 2);
	size_t n = 0;
	if (base->authority.p && base->path.n == 0) {
		merged[n++] = '/';
	} else if (slash >= 0) {
		memcpy(merged, base->path.p, (size_t)slash + 1);
		n = (size_t)slash + 1;
	}
	memcpy(merged + n, ref.p, ref.n);
	add_path(out, kp_str_n(merged, n + ref.n));
	kp_mem_free(merged);
}

void kp_js_uri_resolve(kp_str base_text, kp_str ref_text, struct kp_buf *out)
{
	struct uri base = split(base_text), ref = split(ref_text);
	bool whole = ref.scheme.p != NULL, own_authority = whole || ref.authority.p;
	add_part(out, "", whole ? ref.scheme : base.scheme, ":");
	add_part(out, "//", own_authority ? ref.authority : base.authority, "");
	if (own_authority || (ref.path.n && ref.path.p[0] == '/')) {
		add_path(out, ref.path);
	} else if (ref.path.n) {
		add_merged(out, &base, ref.path);
	} else {
		kp_buf_add(out, base.path);
	}
	add_part(out, "?", own_authority || ref.path.n || ref.query.p ? ref.query : base.query, "");
	add_part(out, "#", ref.fragment, "");
}
