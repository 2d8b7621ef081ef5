/* Python's numbers as text: printing, reading, formatting. Correctly rounded, no locale. */
#ifndef KP_TEMPLATE_PYNUM_H
#define KP_TEMPLATE_PYNUM_H

#include "template/interp.h"

enum { KP_PYNUM_TEXT = 32 };
/* repr(f) into out; returns its length. */
size_t kp_pynum_repr(double f, char out[KP_PYNUM_TEXT]);
size_t kp_pynum_int(int64_t i, char out[KP_PYNUM_TEXT]);
/* The decimal text of an INT, BOOL (as 0 or 1) or BIG without needless signs and zeros; `out` holds small ones. */
kp_str kp_pynum_digits(const struct kp_tv *v, char out[KP_PYNUM_TEXT]);
/* As cmp of two numbers of which one is BIG: -1, 0, 1. */
int kp_pynum_cmp_big(const struct kp_tv *a, const struct kp_tv *b);
/* float(v) of a number; false: too large. */
bool kp_pynum_to_double(const struct kp_tv *v, double *ret);
/* int(f): exact, BIG when large. The caller has refused NaN and infinities. */
int kp_pynum_from_double(struct kp_interp *I, double f, uint8_t origin, struct kp_tv *ret);
/* int(text, base) and float(text): 1 ok, 0 not a number, -1 error. */
int kp_pynum_parse_int(struct kp_interp *I, const struct kp_tv *s, int64_t base, struct kp_tv *ret);
int kp_pynum_parse_float(struct kp_interp *I, const struct kp_tv *s, double *ret);
/* round(f, digits) as Python does it (round half even of the exact value). */
double kp_pynum_round(double f, int64_t digits);

/* One field of str.format or of the % operator. */
struct kp_numspec {
	char sign;                        /* 0 or '-', '+', ' ' */
	char align;                       /* 0, '<', '>', '=', '^' */
	char type;                        /* 0: none given */
	char group;                       /* 0, ',' or '_' */
	bool alt, zero_flag, no_neg_zero; /* '#', '0', 'z' */
	kp_str fill;                      /* one character */
	int64_t width, precision;         /* precision -1: none */
};
/* An integer (type b c d o x X n or 0; also i u of %) or a double (e E f F g G n % or 0) into b. */
int kp_pynum_format_int(struct kp_interp *I, struct kp_tpl_buf *b, const struct kp_tv *v,
	const struct kp_numspec *spec);
int kp_pynum_format_float(struct kp_interp *I, struct kp_tpl_buf *b, double f, uint8_t origin,
	const struct kp_numspec *spec);
/* Digits, sign and prefix put together with fill and grouping. */
int kp_pynum_pad(struct kp_interp *I, struct kp_tpl_buf *b, kp_str sign, kp_str digits, kp_str rest,
	uint8_t origin, const struct kp_numspec *spec);

#endif
