/* DESIGN: see process.h. */
#include "base/process.h"

#include "base/macros.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* Below it some library would abort: gRPC and libuv make what they need at the start, and cannot without. */
enum { FILES_MIN = 64 };

/* A descriptor 0, 1 or 2 that is closed would be given to a socket, and the log written into it. */
static void open_standard_files(void)
{
	int fd;
	do {
		fd = open("/dev/null", O_RDWR);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd > STDERR_FILENO) {
		close(fd);
	}
}

static void raise_file_limit(void)
{
	struct rlimit r;
	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < FILES_MIN) {
		fprintf(stderr, "%s: at most %llu descriptors (ulimit -n), %d are needed\n",
			program_invocation_short_name, (unsigned long long)r.rlim_cur, FILES_MIN);
		exit(1);
	}
}

static void end_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
}

void kp_process_begin(void)
{
	sigset_t set;
	open_standard_files();
	raise_file_limit();
	end_signals(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a limit of file sizes is an error of the write */
}

void kp_process_wait(void)
{
	sigset_t set;
	int sig;
	end_signals(&set);
	sigwait(&set, &sig);
}

int kp_process_end_fd(void)
{
	sigset_t set;
	end_signals(&set);
	int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	KP_BUG_ON(fd < 0); /* no descriptor left, at the start */
	return fd;
}
