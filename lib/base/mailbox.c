/* DESIGN: one mutex, one list. The poster wakes the owner only if the box was empty, after the lock
   is released; the owner takes the whole batch, then runs it unlocked. Lock order: a mailbox lock
   is a leaf, nothing is called under it. */
#include "base/mailbox.h"
#include "base/mem.h"

#include <pthread.h>

struct kp_mailbox {
	pthread_mutex_t lock;
	struct kp_list queue;
	void (*wake)(void *);
	void *wake_arg;
};

struct kp_mailbox *kp_mailbox_create(void (*wake)(void *), void *wake_arg)
{
	struct kp_mailbox *box = kp_new(struct kp_mailbox);
	pthread_mutex_init(&box->lock, NULL);
	kp_list_init(&box->queue);
	box->wake = wake;
	box->wake_arg = wake_arg;
	return box;
}

void kp_mailbox_destroy(struct kp_mailbox *box)
{
	if (!box) {
		return;
	}
	while (kp_mailbox_drain(box)) {
	}
	pthread_mutex_destroy(&box->lock);
	kp_mem_free(box);
}

void kp_mailbox_post(struct kp_mailbox *box, struct kp_msg *msg)
{
	pthread_mutex_lock(&box->lock);
	bool was_empty = kp_list_empty(&box->queue);
	kp_list_push(&box->queue, &msg->link);
	pthread_mutex_unlock(&box->lock);
	if (was_empty && box->wake) {
		box->wake(box->wake_arg);
	}
}

size_t kp_mailbox_drain(struct kp_mailbox *box)
{
	struct kp_list batch, *node;
	pthread_mutex_lock(&box->lock);
	kp_list_take(&batch, &box->queue);
	pthread_mutex_unlock(&box->lock);
	size_t n = 0;
	while ((node = kp_list_pop(&batch))) {
		struct kp_msg *msg = KP_CONTAINER(node, struct kp_msg, link);
		msg->run(msg);
		n++;
	}
	return n;
}
