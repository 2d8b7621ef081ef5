/* DESIGN: builds the engine from its options, prints "ready on ADDR", serves until SIGTERM or SIGINT, takes everything down. */
#include "protocol.h"
#include "base/clock.h"
#include "base/mem.h"

#include <grpc/support/log.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
	(void)number;
	stopping = 1;
}

static int run(const struct kp_sim_opts *o, struct kp_err *err)
{
	struct kp_sim s = {
		.opts = o, .control = o->control, .log_fd = -1, .started_ns = kp_now_ns()
	};
	KP_AUTO(buf) struct kp_buf zip;
	int port;
	kp_list_init(&s.waiting);
	kp_list_init(&s.running);
	kp_list_init(&s.slow);
	s.next_tick_ns = s.started_ns;
	if (kp_sim_bundle(o, &zip, s.tokenizer_sha256, err) < 0) {
		return -1;
	}
	s.tokenizer = kp_buf_str(&zip);
	if (o->log &&
		(s.log_fd = open(o->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) < 0) {
		return kp_err_set(err, KP_INVALID_ARGUMENT, "open log `%s`: no", o->log);
	}
	if (kp_sim_listen(&s, &port, err) < 0) {
		return -1;
	}
	kp_str host = kp_str_c(o->listen);
	host = kp_str_sub(host, 0, (size_t)KP_MAX(kp_str_rfind_char(host, ':'), 0));
	printf("ready on %" KP_FMT ":%d\n", KP_ARG(host), port);
	fflush(stdout);
	while (!stopping) {
		int64_t now = kp_now_ns(), wake = kp_sim_advance(&s, now);
		/* The queue does not return for a signal, so it is looked at now and then. */
		kp_sim_serve_until(&s, KP_MIN(wake, now + 200 * KP_NS_PER_MS));
	}
	kp_sim_shutdown(&s);
	if (s.log_fd >= 0) {
		close(s.log_fd);
	}
	return 0;
}

/* What core has to say about failed calls is in their statuses. */
static void drop_log(gpr_log_func_args *args)
{
	(void)args;
}

int main(int argc, char **argv)
{
	struct kp_sim_opts o;
	struct kp_err err = KP_ERR_INIT;
	int rc = kp_sim_options(argc, argv, &o, &err);
	struct sigaction action = { .sa_handler = on_signal };
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	if (rc == 0) {
		gpr_set_log_function(drop_log);
		grpc_init();
		rc = run(&o, &err);
		grpc_shutdown();
	}
	if (rc < 0) {
		fprintf(stderr, "sim-engine: %s\n", err.msg);
	}
	kp_free(&o.tokens);
	return rc < 0;
}
