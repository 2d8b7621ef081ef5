/* Fuzz target: a watch's stream, cut where the first byte says, must give the same lines as whole; each is an event or
   no event. What it says of a failure goes through the Status reader too. */
#include "base/buf.h"
#include "kube/event.h"
#include "kube/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LINE_MAX_BYTES = 300 };

static int note(void *ctx, kp_str line, struct kp_err *err)
{
	struct kp_kube_event_line e;
	struct kp_kube_failure f;
	kp_buf_printf(ctx, "%zu:", line.n);
	kp_buf_add(ctx, line);
	if (kp_kube_event_parse(line, &e, err) == 0) {
		struct kp_kube_meta m = kp_kube_meta_of(e.object);
		KP_BUG_ON(e.type == KP_KUBE_EVENT_NONE || !json_is_object(e.object));
		kp_buf_printf(ctx, "%d %zu %zu", (int)e.type, m.name.n, m.version.n);
		kp_kube_failure_from_status(&f, 500, e.object, "watch");
		KP_BUG_ON(f.err.code == KP_OK);
		kp_kube_failure_fini(&f);
		kp_kube_event_line_fini(&e);
	}
	kp_kube_failure_init(&f, 500, line, "GET /x");
	KP_BUG_ON(f.err.code == KP_OK || f.err.msg[0] == '\0');
	kp_kube_failure_fini(&f);
	return 0;
}

static int run(kp_str s, size_t step, struct kp_buf *out)
{
	struct kp_kube_lines l;
	struct kp_err err;
	int r = 0;
	kp_kube_lines_init(&l, LINE_MAX_BYTES);
	while (s.n && r == 0) {
		r = kp_kube_lines_feed(&l, kp_str_sub(s, 0, step), note, out, &err);
		s = kp_str_skip(s, step);
	}
	kp_kube_lines_fini(&l);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kp_buf whole, parts;
	if (size < 2) {
		return 0;
	}
	kp_str s = kp_str_n(data + 1, size - 1);
	kp_buf_init(&whole, 64 << 20);
	kp_buf_init(&parts, 64 << 20);
	int a = run(s, s.n, &whole), b = run(s, (size_t)data[0] + 1, &parts);
	KP_BUG_ON(a != b || !kp_str_eq(kp_buf_str(&whole), kp_buf_str(&parts)));
	kp_buf_fini(&whole);
	kp_buf_fini(&parts);
	return 0;
}
