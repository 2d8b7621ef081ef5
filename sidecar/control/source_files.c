/* DESIGN: lib/control watches and checks the files; here a good set becomes a program, and a bad one a
 * log line, a metric and lines of the readiness report. */
#include "sidecar/control/source.h"

#include "control/manifests.h"
#include "obs/log.h"

struct files {
	struct kp_source base;
	struct kp_loop *loop;
	struct kp_source_sink sink;
	struct kp_manifests manifests;
	struct kp_timer look;
	struct kp_counter *taken, *refused;
	struct kp_gauge *errors;
};

struct build {
	struct kp_program *program;
	kp_str ns;
};

static int build(void *ctx, const struct kp_object_set *set, struct kp_problems *problems,
	struct kp_err *err)
{
	struct build *b = ctx;
	return kp_program_build(set, b->ns, problems, &b->program, err);
}

/* Errors go to the log, the report and the gauge. */
static int load(struct files *f, struct kp_err *err)
{
	struct kp_object_set set;
	struct build b = { .ns = f->manifests.ns };
	if (kp_manifests_read(&f->manifests, &set, build, &b, err)) {
		kp_program_destroy(b.program);
		kp_counter_add(f->refused, 1);
		kp_gauge_set(f->errors, (int64_t)f->manifests.n_errors);
		return -1;
	}
	kp_object_set_fini(&set);
	kp_counter_add(f->taken, 1);
	kp_gauge_set(f->errors, 0);
	kp_log(KP_LOG_INFO, "manifests accepted", kp_f_z("path", f->manifests.path),
		kp_f_int("engines", (int64_t)b.program->n_engines));
	f->sink.program(f->sink.arg, b.program, f->manifests.read_wall_ns / KP_NS_PER_S);
	return 0;
}

static void on_look(struct kp_timer *t)
{
	struct files *f = KP_CONTAINER(t, struct files, look);
	struct kp_err err;
	if (kp_manifests_look(&f->manifests) && load(f, &err)) {
		kp_log(KP_LOG_ERROR, "manifests refused, the last good program stays",
			kp_f_err(&err));
		f->sink.changed(f->sink.arg);
	}
	kp_timer_start(f->loop, t, kp_loop_now(f->loop) + KP_MANIFESTS_LOOK_NS, on_look);
}

static void start(struct kp_source *s)
{
	struct files *f = KP_CONTAINER(s, struct files, base);
	kp_timer_start(f->loop, &f->look, 0, on_look);
}

static void report(const struct kp_source *s, struct kp_buf *out)
{
	const struct files *f = KP_CONTAINER(s, const struct files, base);
	if (f->manifests.errors.n) {
		kp_buf_lit(out, "[!]manifests: refused, the last good program stays\n");
		kp_buf_add(out, kp_buf_str(&f->manifests.errors));
	} else {
		kp_buf_lit(out, "[+]manifests: ok\n");
	}
}

static void destroy(struct kp_source *s)
{
	struct files *f = KP_CONTAINER(s, struct files, base);
	kp_timer_stop(f->loop, &f->look);
	kp_manifests_fini(&f->manifests);
	kp_mem_free(f);
}

int kp_source_files_create(struct kp_gateway *g, struct kp_loop *loop,
	const struct kp_source_sink *sink, struct kp_source **ret, struct kp_err *err)
{
	static const struct kp_source_ops ops = { start, NULL, report, destroy };
	const struct kp_label ok = { "result", KP_S("accepted") },
			      refused = { "result", KP_S("refused") };
	const char *help = "Times the manifests were read, by result.";
	struct files *f = kp_new(struct files);
	*f = (struct files){ .base = { &ops }, .loop = loop, .sink = *sink };
	f->taken = kp_metrics_counter(g->metrics, "kelpie_manifest_loads_total", help, &ok, 1);
	f->refused =
		kp_metrics_counter(g->metrics, "kelpie_manifest_loads_total", help, &refused, 1);
	f->errors = kp_metrics_gauge(g->metrics, "kelpie_manifest_errors",
		"Errors in the manifests as they are on disk; 0: they are the program.", NULL, 0);
	kp_manifests_init(&f->manifests, g->config.manifests, kp_str_c(g->config.namespace));
	if (load(f, err)) {
		destroy(&f->base);
		return -1;
	}
	*ret = &f->base;
	return 0;
}
