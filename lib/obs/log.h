/* Structured log: one line per event on standard error, logfmt or JSON. Lines are formatted by the
   calling thread into a bounded queue and written by a thread of their own, so that a slow pipe
   never holds a loop; what does not fit is counted and reported. No prompt text is logged by
   default. Any thread. */
#ifndef KP_OBS_LOG_H
#define KP_OBS_LOG_H

#include "base/err.h"
#include "base/str.h"

enum kp_log_level { KP_LOG_DEBUG = 0, KP_LOG_INFO, KP_LOG_WARN, KP_LOG_ERROR };
enum kp_log_format { KP_LOG_LOGFMT = 0, KP_LOG_JSON };
/* By value, NULL behind the last: for command lines. */
extern const char *const kp_log_level_names[], *const kp_log_format_names[];

struct kp_field {
	const char *key;
	enum { KP_FIELD_STR = 0, KP_FIELD_I64, KP_FIELD_F64, KP_FIELD_BOOL } type;
	union {
		kp_str s;
		int64_t i;
		double f;
		bool b;
	};
};

static inline struct kp_field kp_f_str(const char *key, kp_str s)
{
	return (struct kp_field){ .key = key, .type = KP_FIELD_STR, .s = s };
}
static inline struct kp_field kp_f_z(const char *key, const char *z)
{
	return kp_f_str(key, kp_str_c(z));
}
static inline struct kp_field kp_f_int(const char *key, int64_t i)
{
	return (struct kp_field){ .key = key, .type = KP_FIELD_I64, .i = i };
}
static inline struct kp_field kp_f_f64(const char *key, double f)
{
	return (struct kp_field){ .key = key, .type = KP_FIELD_F64, .f = f };
}
static inline struct kp_field kp_f_bool(const char *key, bool b)
{
	return (struct kp_field){ .key = key, .type = KP_FIELD_BOOL, .b = b };
}
static inline struct kp_field kp_f_err(const struct kp_err *err)
{
	return kp_f_z("error", err->msg);
}

extern enum kp_log_level kp_log_min; /* set once, before threads start */

/* Starts the writer thread; before that (and after stop) lines are written directly. */
void kp_log_start(enum kp_log_level min, enum kp_log_format format);
void kp_log_stop(void); /* writes what is queued, joins the thread */
uint64_t kp_log_dropped(void);

void kp_log_emit(enum kp_log_level level, const char *msg, const struct kp_field *fields, size_t n);
/* kp_log(KP_LOG_INFO, "listening", kp_f_z("address", a)); */
#define kp_log(level, ...) kp_log_fields(level, __VA_ARGS__, (struct kp_field){ .key = NULL })
/* The field without a name behind them is not counted: it is there because a variable argument list
 * must not be empty. */
#define kp_log_fields(level, msg, ...)                                                          \
	((level) >= kp_log_min                                                                  \
			? kp_log_emit((level), (msg), (const struct kp_field[]){ __VA_ARGS__ }, \
				  KP_LEN(((const struct kp_field[]){ __VA_ARGS__ })) - 1)       \
			: (void)0)

/* Rate limit for one place in the code: true at most once per interval; *ret_suppressed is how
 * often it said no since the last true. Owned by one thread. */
struct kp_log_limit {
	int64_t next_ns;
	uint64_t suppressed;
};
bool kp_log_allow(
	struct kp_log_limit *l, int64_t now_ns, int64_t interval_ns, uint64_t *ret_suppressed);

#endif
