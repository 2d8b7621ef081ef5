/* DESIGN: of EXIF only the orientation (tag 0x0112 of the first directory) is read. Anything odd means "none": a photo with
   a broken block is shown as it is stored, as Pillow does. */
#include "image/codec.h"

struct tiff {
	kp_str bytes;
	bool big;
};

static uint32_t u16(const struct tiff *t, size_t at)
{
	const unsigned char *p = (const unsigned char *)t->bytes.p + at;
	return t->big ? (uint32_t)(p[0] << 8 | p[1]) : (uint32_t)(p[1] << 8 | p[0]);
}
static uint32_t u32(const struct tiff *t, size_t at)
{
	return t->big ? u16(t, at) << 16 | u16(t, at + 2) : u16(t, at + 2) << 16 | u16(t, at);
}

uint8_t kp_exif_orientation(kp_str exif)
{
	enum { HEAD = 8, ENTRY = 12, TAG = 0x0112, BYTE = 1, SHORT = 3, LONG = 4 };
	if (kp_str_starts(exif, KP_S("Exif\0\0"))) {
		exif = kp_str_skip(exif, 6);
	}
	struct tiff t = { exif, kp_str_starts(exif, KP_S("MM")) };
	if (exif.n < HEAD || (!t.big && !kp_str_starts(exif, KP_S("II"))) || u16(&t, 2) != 42) {
		return 1;
	}
	size_t at = u32(&t, 4);
	if (at > exif.n || exif.n - at < 2) {
		return 1;
	}
	uint32_t n = u16(&t, at);
	at += 2;
	for (; n && exif.n - at >= ENTRY; n--, at += ENTRY) {
		if (u16(&t, at) != TAG || u32(&t, at + 4) != 1) {
			continue;
		}
		uint32_t type = u16(&t, at + 2);
		uint32_t v = type == SHORT  ? u16(&t, at + 8)
			     : type == LONG ? u32(&t, at + 8)
			     : type == BYTE ? (unsigned char)exif.p[at + 8]
					    : 1;
		return v >= 1 && v <= 8 ? (uint8_t)v : 1;
	}
	return 1;
}
