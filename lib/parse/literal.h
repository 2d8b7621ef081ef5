/* Values that are not JSON, to JSON, byte by byte: Python literals ({'a': (1, None)}), and Gemma's objects ({city:<escape>Paris<escape>}: bare keys,
   strings between marks). What is written is final. */
#ifndef KP_PARSE_LITERAL_H
#define KP_PARSE_LITERAL_H

#include "base/buf.h"

enum { KP_LITERAL_DEPTH = 512 /* Python itself reads 200 */, KP_LITERAL_WORD = 512 };

enum kp_literal_result {
	KP_LITERAL_MORE = 0,
	KP_LITERAL_END,  /* the byte is the value's last */
	KP_LITERAL_PAST, /* the value ended before this byte, which is not taken */
	KP_LITERAL_BAD,
};

struct kp_literal {
	bool marks; /* Gemma's: strings stand between marks, anything else up to a delimiter is a word */
	uint8_t state;
	char quote;
	bool triple, is_key, comma; /* comma: one is due before the next value of the container */
	uint8_t n_quotes, digits;
	uint8_t left;        /* behind a colon: a value, not a key */
	uint32_t code, high; /* of an escape; the first half of a pair, 0: none */
	uint16_t depth;
	char open[KP_LITERAL_DEPTH];
	uint16_t n_word;
	char word[KP_LITERAL_WORD];
};
void kp_literal_init(struct kp_literal *l, bool marks);
enum kp_literal_result kp_literal_byte(struct kp_literal *l, char c, struct kp_buf *out);
/* The mark at either end of a string. */
enum kp_literal_result kp_literal_mark(struct kp_literal *l, struct kp_buf *out);
bool kp_literal_in_string(const struct kp_literal *l);
/* The whole text as one value; false, and nothing appended, when it is none. */
bool kp_literal_convert(kp_str text, struct kp_buf *out);

/* The inside of a JSON string, as kp_json_w_esc, but bytes that are part of a character pass, so it may be called for pieces. */
void kp_literal_escape(kp_str text, struct kp_buf *out);

#endif
