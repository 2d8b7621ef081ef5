/* What callbacks of a channel's calls may do: pause, cancel, destroy, start another call. */
#include "grpc_channel_calls.h"

static void paused_and_resumed(void **state)
{
	struct fixture *f = *state;
	open_channel(f, (struct kp_grpc_opts){ .address = NULL });
	struct call *c = start(f, 0, false);
	c->pause_at = 1;
	run(f, all_asked, 0);
	struct side *s = &f->srv.sides[0];
	H2_HEAD(&s->p, 1);
	h2_send(&s->p, 1, KP_S("a"));
	h2_send(&s->p, 1, KP_S("b"));
	H2_STATUS(&s->p, 1, "0");
	flush_side(s);
	run(f, NULL, 20);
	assert_text(c, "a|");
	/* Resumed and paused again before anything could come of it. */
	kp_grpc_pause(c->call, false);
	kp_grpc_pause(c->call, true);
	run(f, NULL, 10);
	assert_text(c, "a|");
	kp_grpc_pause(c->call, false);
	assert_text(c, "a|"); /* not from inside */
	run(f, all_ended, 0);
	assert_text(c, "a|b|OK");
}

static void a_paused_call_still_has_its_deadline(void **state)
{
	struct fixture *f = *state;
	open_channel(f, (struct kp_grpc_opts){ .address = NULL });
	struct call *c = start(f, 100, false);
	c->pause_at = 1;
	run(f, all_asked, 0);
	struct side *s = &f->srv.sides[0];
	H2_HEAD(&s->p, 1);
	h2_send(&s->p, 1, KP_S("a"));
	h2_send(&s->p, 1, KP_S("b"));
	flush_side(s);
	run(f, all_ended, 0);
	assert_text(c, "a|DEADLINE_EXCEEDED");
	run(f, NULL, 20);
	assert_true(kp_str_has(kp_buf_str(&s->p.log), KP_S("rst 1: CANCEL")));
}

static void destroyed_inside_callbacks(void **state)
{
	struct fixture *f = *state;
	open_channel(f, (struct kp_grpc_opts){ .address = NULL });
	struct call *a = start(f, 0, false);
	struct call *b = start(f, 0, false);
	struct call *c = start(f, 0, false);
	a->destroy_at = 2;
	b->pause_at = 1;
	run(f, all_asked, 0);
	struct side *s = &f->srv.sides[0];
	H2_HEAD(&s->p, 3);
	h2_send(&s->p, 3, KP_S("x"));
	h2_send(&s->p, 3, KP_S("y"));
	H2_HEAD(&s->p, 1);
	h2_send(&s->p, 1, KP_S("1"));
	h2_send(&s->p, 1, KP_S("2"));
	h2_send(&s->p, 1, KP_S("3"));
	H2_STATUS(&s->p, 1, "0");
	flush_side(s);
	run(f, all_ended, 0);
	assert_text(a, "1|2|CANCELLED");
	assert_text(b, "x|CANCELLED");
	assert_text(c, "CANCELLED");
	run(f, NULL, 20);
	assert_null(s->conn);
}

static void destroyed_inside_an_end(void **state)
{
	struct fixture *f = *state;
	open_channel(f, (struct kp_grpc_opts){ .address = NULL });
	struct call *a = start(f, 0, false);
	struct call *b = start(f, 0, false);
	a->destroy_at_end = true;
	run(f, all_asked, 0);
	struct side *s = &f->srv.sides[0];
	H2_HEAD(&s->p, 1);
	H2_STATUS(&s->p, 1, "0");
	flush_side(s);
	run(f, all_ended, 0);
	assert_text(a, "OK");
	assert_text(b, "CANCELLED");
}

static void destroyed_when_the_connection_is_lost(void **state)
{
	struct fixture *f = *state;
	open_channel(f, (struct kp_grpc_opts){ .address = NULL });
	for (int i = 0; i < 5; i++) {
		start(f, 0, false)->destroy_at_end = true;
	}
	run(f, all_asked, 0);
	kp_conn_abort(kp_steal(f->srv.sides[0].conn));
	run(f, all_ended, 0);
	assert_text(&f->calls[0], "UNAVAILABLE");
	assert_text(&f->calls[4], "CANCELLED");
}

static void destroyed_by_an_early_failure(void **state)
{
	struct fixture *f = *state;
	f->srv.is_rude = true;
	open_channel(f, (struct kp_grpc_opts){ .address = NULL });
	for (int i = 0; i < 5; i++) {
		start(f, 0, i == 4)->destroy_at_end = true;
	}
	run(f, all_ended, 0);
	assert_text(&f->calls[0], "UNAVAILABLE?");
	assert_text(&f->calls[4], "CANCELLED?");
}

static void a_call_after_the_end(void **state)
{
	struct fixture *f = *state;
	open_channel(f, (struct kp_grpc_opts){ .address = NULL });
	struct call *a = start(f, 0, false);
	a->restart_at_end = true;
	struct kp_grpc_channel *ch = kp_steal(f->ch);
	f->ch = ch; /* `end` starts on it once more, while it is being destroyed */
	kp_grpc_channel_destroy(ch);
	assert_text(a, "CANCELLED?");
	f->ch = NULL;
	run(f, all_ended, 0);
	assert_text(a->next, "CANCELLED?");
}

static void cancelled_inside_a_message(void **state)
{
	struct fixture *f = *state;
	open_channel(f, (struct kp_grpc_opts){ .address = NULL });
	struct call *a = start(f, 1000, false);
	a->cancel_at = 2;
	run(f, all_asked, 0);
	struct side *s = &f->srv.sides[0];
	H2_HEAD(&s->p, 1);
	h2_data(&s->p, 1, false, KP_S("\0\0\0\0\1a\0\0\0\0\1b\0\0\0\0\1c"));
	H2_STATUS(&s->p, 1, "0");
	flush_side(s);
	run(f, NULL, 20);
	assert_text(a, "a|b|");
	assert_int_equal(kp_grpc_channel_calls(f->ch), 0);
	assert_true(kp_str_has(kp_buf_str(&s->p.log), KP_S("rst 1: CANCEL")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(paused_and_resumed),
		WITH(a_paused_call_still_has_its_deadline),
		WITH(destroyed_inside_callbacks),
		WITH(destroyed_inside_an_end),
		WITH(destroyed_when_the_connection_is_lost),
		WITH(destroyed_by_an_early_failure),
		WITH(a_call_after_the_end),
		WITH(cancelled_inside_a_message),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
