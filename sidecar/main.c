/* kelpie-sidecar: builds the gateway, runs it, takes it down. */
#include "obs/log.h"
#include "sidecar/gateway.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* SIGTERM, SIGINT and SIGHUP are waited for by kp_gateway_run; blocked in every thread from the
 * start. */
static void block_signals(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP); /* a terminal that goes away */
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

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

int main(int argc, char **argv)
{
	open_standard_files();
	struct kp_config config;
	struct kp_gateway *gateway;
	struct kp_err err;
	int r = kp_config_parse(argc, argv, &config, &err);
	if (r < 0) {
		fprintf(stderr, "kelpie-sidecar: %s\n", err.msg);
		return 2;
	}
	if (r > 0) {
		return 0;
	}
	block_signals();
	kp_log_start(config.log_level, config.log_format);
	r = kp_gateway_start(&config, &gateway, &err);
	if (r < 0) {
		kp_log(KP_LOG_ERROR, "cannot start", kp_f_err(&err));
	} else {
		kp_gateway_run(gateway);
		kp_gateway_destroy(gateway);
	}
	kp_log_stop();
	return r < 0 ? 1 : 0;
}
