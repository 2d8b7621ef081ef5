/* DESIGN: one uv_poll handle for each socket of libcurl's, made when libcurl first names the socket and closed when it names
   it for the last time; the handle outlives that until the loop has closed it. All of libcurl's times are one timer. */
#include "fetch/multi.h"

#include "base/clock.h"
#include "base/mem.h"

#include <uv.h>

struct watch {
	uv_poll_t poll;
	struct kp_multi *multi; /* NULL: closing */
	curl_socket_t fd;
};

static void act(struct kp_multi *m, curl_socket_t fd, int flags)
{
	int running;
	curl_multi_socket_action(m->curl, fd, flags, &running);
	m->stirred(m);
}

static void on_timer(struct kp_timer *t)
{
	act(KP_CONTAINER(t, struct kp_multi, timer), CURL_SOCKET_TIMEOUT, 0);
}

static int set_timer(CURLM *curl, long ms, void *ctx)
{
	struct kp_multi *m = ctx;
	(void)curl;
	if (ms < 0) {
		kp_timer_stop(m->loop, &m->timer);
	} else {
		kp_timer_start(m->loop, &m->timer,
			kp_loop_now(m->loop) + (int64_t)ms * KP_NS_PER_MS, on_timer);
	}
	return 0;
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
	struct watch *w = handle->data;
	int flags = status < 0 ? CURL_CSELECT_ERR : 0;
	flags |= events & UV_READABLE ? CURL_CSELECT_IN : 0;
	flags |= events & UV_WRITABLE ? CURL_CSELECT_OUT : 0;
	kp_loop_now(w->multi->loop); /* a callback that lib/net did not see */
	act(w->multi, w->fd, flags);
}

static void on_closed(uv_handle_t *handle)
{
	kp_mem_free(handle->data);
}

static void unwatch(struct watch *w)
{
	uv_poll_stop(&w->poll);
	w->multi = NULL;
	uv_close((uv_handle_t *)&w->poll, on_closed);
}

static int set_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *of_socket)
{
	struct kp_multi *m = ctx;
	struct watch *w = of_socket;
	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		if (w) {
			curl_multi_assign(m->curl, fd, NULL);
			unwatch(w);
		}
		return 0;
	}
	if (!w) {
		w = kp_new(struct watch);
		w->multi = m;
		w->fd = fd;
		w->poll.data = w;
		if (uv_poll_init(kp_loop_uv(m->loop), &w->poll, fd)) {
			kp_mem_free(w);
			return -1;
		}
		curl_multi_assign(m->curl, fd, w);
	}
	int events = what == CURL_POLL_IN    ? UV_READABLE
		     : what == CURL_POLL_OUT ? UV_WRITABLE
					     : UV_READABLE | UV_WRITABLE;
	return uv_poll_start(&w->poll, events, on_poll) ? -1 : 0;
}

void kp_multi_init(struct kp_multi *m, struct kp_loop *loop, void (*stirred)(struct kp_multi *))
{
	*m = (struct kp_multi){ .loop = loop, .stirred = stirred };
	curl_global_init(CURL_GLOBAL_DEFAULT); /* any number of times, any thread */
	m->curl = curl_multi_init();
	KP_BUG_ON(!m->curl);
	curl_multi_setopt(m->curl, CURLMOPT_SOCKETFUNCTION, set_socket);
	curl_multi_setopt(m->curl, CURLMOPT_SOCKETDATA, m);
	curl_multi_setopt(m->curl, CURLMOPT_TIMERFUNCTION, set_timer);
	curl_multi_setopt(m->curl, CURLMOPT_TIMERDATA, m);
	curl_multi_setopt(m->curl, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
}

void kp_multi_fini(struct kp_multi *m)
{
	if (m->curl) {
		curl_multi_cleanup(m->curl); /* takes its sockets off the loop */
		kp_timer_stop(m->loop, &m->timer);
		m->curl = NULL;
	}
}

void *kp_multi_ended(struct kp_multi *m, CURLcode *ret_result)
{
	int left;
	for (CURLMsg *msg; (msg = curl_multi_info_read(m->curl, &left));) {
		char *of_transfer = NULL;
		if (msg->msg == CURLMSG_DONE) {
			curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &of_transfer);
			*ret_result = msg->data.result;
			return of_transfer;
		}
	}
	return NULL;
}
