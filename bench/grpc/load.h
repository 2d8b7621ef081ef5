/* What the two clients of bench/grpc share: options, the request, CPU time, the result as one JSON line. The service is server/main.go's: a request is text,
   "count=N size=N tick_us=N gap_us=N". */
#ifndef KP_BENCH_GRPC_LOAD_H
#define KP_BENCH_GRPC_LOAD_H

#include "base/clock.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

struct load {
	const char *address; /* "127.0.0.1:50051" */
	uint64_t concurrency, calls, count, size, tick_us, gap_us, window;
	char request[200];
};

struct load_mark {
	int64_t wall_ns, cpu_ns;
};

/* ADDRESS then name=value words. */
KP_UNUSED static struct load load_options(int argc, char **argv)
{
	struct load l = { .concurrency = 32, .calls = 2000, .count = 257, .size = 18 };
	const struct {
		const char *name;
		uint64_t *value;
	} options[] = { { "concurrency=", &l.concurrency }, { "calls=", &l.calls },
		{ "count=", &l.count }, { "size=", &l.size }, { "tick_us=", &l.tick_us },
		{ "gap_us=", &l.gap_us }, { "window=", &l.window } };
	for (int i = 2; i < argc; i++) {
		kp_str word = kp_str_c(argv[i]);
		bool known = false;
		for (size_t k = 0; k < KP_LEN(options); k++) {
			kp_str name = kp_str_c(options[k].name);
			known = known || (kp_str_starts(word, name) &&
						 kp_str_u64(kp_str_skip(word, name.n), UINT64_MAX,
							 options[k].value));
		}
		if (!known) {
			fprintf(stderr, "bad option `%s`\n", argv[i]);
			exit(2);
		}
	}
	if (argc < 2) {
		fprintf(stderr, "usage: %s ADDRESS [name=value...]\n", argv[0]);
		exit(2);
	}
	l.address = argv[1];
	snprintf(l.request, sizeof(l.request), "count=%llu size=%llu tick_us=%llu gap_us=%llu",
		(unsigned long long)l.count, (unsigned long long)l.size,
		(unsigned long long)l.tick_us, (unsigned long long)l.gap_us);
	return l;
}

KP_UNUSED static struct load_mark load_mark(void)
{
	struct rusage r;
	getrusage(RUSAGE_SELF, &r);
	int64_t us = (int64_t)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000 +
		     r.ru_utime.tv_usec + r.ru_stime.tv_usec;
	return (struct load_mark){ kp_now_ns(), us * KP_NS_PER_US };
}

/* The peak of this program; getrusage's survives exec and would show the parent's. */
static double peak_mib(void)
{
	static char text[8192];
	FILE *f = fopen("/proc/self/status", "re");
	size_t n = f ? fread(text, 1, sizeof(text), f) : 0;
	if (f) {
		fclose(f);
	}
	kp_str status = { text, n }, line;
	uint64_t kib = 0;
	while (kp_str_split(&status, '\n', &line)) {
		if (kp_str_starts(line, KP_S("VmHWM:"))) {
			kp_str number = kp_str_trim(
				kp_str_sub(line, 6, line.n - KP_MIN(line.n, (size_t)3)));
			(void)kp_str_u64(number, UINT64_MAX, &kib);
		}
	}
	return (double)kib / 1024;
}

KP_UNUSED static void load_report(
	struct load_mark from, uint64_t calls, uint64_t messages, uint64_t bad)
{
	struct load_mark to = load_mark();
	double cpu_us = (double)(to.cpu_ns - from.cpu_ns) / 1e3;
	printf("{\"calls\": %llu, \"messages\": %llu, \"bad\": %llu, \"wall_s\": %.3f, \"cpu_us_per_message\": %.4f, \"cpu_us_per_call\": %.2f, "
	       "\"rss_mib\": %.1f}\n",
		(unsigned long long)calls, (unsigned long long)messages, (unsigned long long)bad,
		(double)(to.wall_ns - from.wall_ns) / 1e9,
		cpu_us / (double)(messages ? messages : 1), cpu_us / (double)(calls ? calls : 1),
		peak_mib());
}

#endif
