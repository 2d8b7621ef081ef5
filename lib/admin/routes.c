/* DESIGN: what every program's routes need; nothing of libwebsockets. */
#include "admin/admin.h"

#include "base/version.h"
#include "json/write.h"

kp_str kp_admin_arg(const struct kp_admin_query *q, const char *name)
{
	for (size_t i = 0; i < q->n; i++) {
		if (kp_str_eq(q->args[i].name, kp_str_c(name))) {
			return q->args[i].value;
		}
	}
	return KP_STR_NULL;
}

struct kp_admin_answer kp_admin_error(struct kp_buf *out, const struct kp_err *err)
{
	kp_json_w_err(out, err);
	return (struct kp_admin_answer){ .status = (unsigned)kp_code_http(err->code),
		.type = "application/json" };
}

struct kp_admin_answer kp_admin_livez(
	void *ctx, const struct kp_admin_query *query, struct kp_buf *out)
{
	(void)ctx;
	(void)query;
	kp_buf_lit(out, "ok\n");
	return (struct kp_admin_answer){ .status = 200, .type = "text/plain; charset=utf-8" };
}

struct kp_admin_answer kp_admin_version(
	void *ctx, const struct kp_admin_query *query, struct kp_buf *out)
{
	(void)ctx;
	(void)query;
	kp_buf_lit(out, "{\"version\":");
	kp_json_w_str(out, kp_str_c(kp_version()));
	kp_buf_lit(out, ",\"commit\":");
	kp_json_w_str(out, kp_str_c(kp_commit()));
	kp_buf_addc(out, '}');
	return (struct kp_admin_answer){ .status = 200, .type = "application/json" };
}
