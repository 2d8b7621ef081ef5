/* What a helper of the tests is asked on stdin: frames of one letter, a little-endian 32-bit length and that many bytes (tests/oracle/golang.py, Framed). */
#ifndef KP_TESTS_FRAMES_H
#define KP_TESTS_FRAMES_H

#include "base/mem.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>

struct test_frame {
	char kind;
	size_t n;
	char *text; /* n bytes and a NUL, kp_free */
};

/* false: no more come. Ends the program where one is cut. */
KP_UNUSED static bool frame_read(struct test_frame *f)
{
	unsigned char head[5];
	size_t n = fread(head, 1, sizeof(head), stdin);
	if (n == 0) {
		return false;
	}
	f->kind = (char)head[0];
	f->n = head[1] | (size_t)head[2] << 8 | (size_t)head[3] << 16 | (size_t)head[4] << 24;
	f->text = kp_xmalloc(f->n + 1);
	if (n < sizeof(head) || fread(f->text, 1, f->n, stdin) != f->n) {
		fprintf(stderr, "a frame is cut\n");
		exit(1);
	}
	f->text[f->n] = '\0';
	return true;
}

#endif
