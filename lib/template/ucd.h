/* What Python's str knows of each character: generated tables (ucd_gen.c) and how to read them. */
#ifndef KP_TEMPLATE_UCD_H
#define KP_TEMPLATE_UCD_H

#include "base/macros.h"

enum { /* order as in hack/gen-python-unicode */
	KP_UCD_ALPHA = 1 << 0,
	KP_UCD_DECIMAL = 1 << 1,
	KP_UCD_DIGIT = 1 << 2,
	KP_UCD_NUMERIC = 1 << 3,
	KP_UCD_SPACE = 1 << 4,
	KP_UCD_LOWER = 1 << 5,
	KP_UCD_UPPER = 1 << 6,
	KP_UCD_TITLE = 1 << 7, /* title case and not upper case */
	KP_UCD_PRINTABLE = 1 << 8,
	KP_UCD_XID_START = 1 << 9,
	KP_UCD_XID_CONTINUE = 1 << 10,
	KP_UCD_CASED = 1 << 11,
	KP_UCD_IGNORABLE = 1 << 12, /* Case_Ignorable: for the final sigma */
	KP_UCD_ALNUM = KP_UCD_ALPHA | KP_UCD_DECIMAL | KP_UCD_DIGIT | KP_UCD_NUMERIC,
};
enum kp_ucd_map { KP_UCD_TO_UPPER = 0, KP_UCD_TO_LOWER, KP_UCD_TO_TITLE, KP_UCD_FOLD };

struct kp_ucd_record {
	uint16_t flags;
	uint8_t decimal;
	int32_t map[4]; /* by kp_ucd_map: a difference, or KP_UCD_SPECIAL + index */
};
#define KP_UCD_SPECIAL 0x40000000
extern const uint16_t kp_ucd_index[], kp_ucd_blocks[][128];
extern const struct kp_ucd_record kp_ucd_records[];
extern const uint32_t kp_ucd_specials[][3];

static inline const struct kp_ucd_record *kp_ucd(uint32_t cp)
{
	cp = cp > 0x10ffff ? 0 : cp;
	return &kp_ucd_records[kp_ucd_blocks[kp_ucd_index[cp >> 7]][cp & 127]];
}
static inline bool kp_ucd_is(uint32_t cp, unsigned flags)
{
	return (kp_ucd(cp)->flags & flags) != 0;
}
static inline bool kp_ucd_space(uint32_t cp)
{
	return cp < 0x80 ? cp == ' ' || (cp >= 9 && cp <= 13) || (cp >= 0x1c && cp <= 0x1f)
			 : kp_ucd_is(cp, KP_UCD_SPACE);
}
/* 1 to 3 characters into out. */
static inline unsigned kp_ucd_convert(uint32_t cp, enum kp_ucd_map how, uint32_t out[3])
{
	int32_t m = kp_ucd(cp)->map[how];
	if (m < KP_UCD_SPECIAL) {
		out[0] = (uint32_t)((int32_t)cp + m);
		return 1;
	}
	const uint32_t *s = kp_ucd_specials[m - KP_UCD_SPECIAL];
	unsigned n = 0;
	while (n < 3 && s[n]) {
		out[n] = s[n];
		n++;
	}
	return n;
}

#endif
