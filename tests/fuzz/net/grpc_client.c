/* A server's bytes into a gRPC client session with four calls. The first eight bytes of the input say what the callbacks do (hold, reset or kill in the n-th
   message of each call), the rest is what the server sends from its first byte on. Fed whole and fed in cuts; every call must see the same. */
#include "tests/unit/net/grpc_session_calls.h"

enum { CALLS = 4, PLAN = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
	struct kp_buf log[CALLS];
	bool is_dead; /* recv failed, or the session was killed */
};

static void open_calls(struct kp_grpc_session *s, struct test_call *c, bool *opened)
{
	for (int i = 0; i < CALLS && kp_grpc_session_room(s) > 0; i++) {
		if (!opened[i]) {
			test_call_open(s, &c[i]);
			opened[i] = true;
		}
	}
}

static void run(const uint8_t *plan, kp_str bytes, size_t piece, struct outcome *o)
{
	struct kp_grpc_session *s = test_session();
	struct test_call c[CALLS];
	bool opened[CALLS] = { false };
	struct h2_peer p;
	h2_peer_init(&p);
	for (int i = 0; i < CALLS; i++) {
		test_call_init(&c[i], KP_S("question"));
		c[i].hold_at = plan[i] & 15;
		c[i].reset_at = plan[i] >> 4;
		c[i].reset_other = plan[4] & 1 ? &c[(i + 1) % CALLS] : NULL;
		c[i].kill_at = plan[5];
		c[i].kill = s;
	}
	/* The server's SETTINGS first, whatever follows, so that there are calls to answer. */
	struct kp_err err;
	h2_settings(&p, 0);
	int rc = kp_grpc_session_recv(s, kp_buf_str(&p.out), &err);
	test_send(s, &p);
	open_calls(s, c, opened);
	test_send(s, &p);
	while (bytes.n && rc == 0) {
		kp_str part = kp_str_sub(bytes, 0, piece);
		bytes = kp_str_skip(bytes, part.n);
		char *copy = kp_xmalloc(part.n);
		memcpy(copy, part.p, part.n);
		rc = kp_grpc_session_recv(s, kp_str_n(copy, part.n), &err);
		kp_mem_free(copy);
	}
	o->is_dead = rc != 0;
	if (rc == 0) {
		test_send(s, &p);
		struct kp_err gone;
		kp_err_set(&gone, KP_UNAVAILABLE, "gone");
		kp_grpc_session_fail(s, &gone);
	}
	for (int i = 0; i < CALLS; i++) {
		if (rc == 0 && c[i].st.ops && c[i].st.in.is_held) {
			c[i].hold_at = 0;
			kp_grpc_stream_release(&c[i].st);
		}
		KP_BUG_ON(rc == 0 && c[i].st.ops && !c[i].n_ends); /* neither ended nor reset */
		KP_BUG_ON(c[i].st.in.in.n > TEST_MAX_MESSAGE + TEST_WINDOW + KP_GRPC_PREFIX);
		kp_buf_init(&o->log[i], SIZE_MAX);
		kp_buf_add(&o->log[i], kp_buf_str(&c[i].log));
		test_call_fini(&c[i]);
	}
	kp_grpc_session_destroy(s);
	h2_peer_fini(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < PLAN || size > TEST_WINDOW / 2) {
		return 0;
	}
	kp_str bytes = kp_str_n(data + PLAN, size - PLAN);
	struct outcome whole, cut;
	run(data, bytes, SIZE_MAX, &whole);
	run(data, bytes, 1 + data[6] % 64, &cut);
	for (int i = 0; i < CALLS; i++) {
		/* A dead session may have died at another message of the same piece; one that broke its own rules (content-length) may have delivered more. */
		if (!whole.is_dead && !cut.is_dead &&
			!kp_str_has(kp_buf_str(&whole.log[i]), KP_S("PROTOCOL_ERROR"))) {
			KP_BUG_ON(!kp_str_eq(kp_buf_str(&whole.log[i]), kp_buf_str(&cut.log[i])));
		}
		kp_buf_fini(&whole.log[i]);
		kp_buf_fini(&cut.log[i]);
	}
	return 0;
}
