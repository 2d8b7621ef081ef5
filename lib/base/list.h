/* Intrusive doubly linked list. A zeroed node is "in no list"; kp_list_del leaves it so. */
#ifndef KP_BASE_LIST_H
#define KP_BASE_LIST_H

#include "base/macros.h"

struct kp_list {
	struct kp_list *next, *prev;
};

static inline void kp_list_init(struct kp_list *head)
{
	head->next = head->prev = head;
}
static inline bool kp_list_empty(const struct kp_list *head)
{
	return head->next == head;
}
static inline bool kp_list_linked(const struct kp_list *node)
{
	return node->next != NULL;
}
static inline void kp_list_push(struct kp_list *head, struct kp_list *node) /* at the tail */
{
	KP_BUG_ON(node->next != NULL);
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}
static inline void kp_list_del(struct kp_list *node)
{
	if (node->next) {
		node->prev->next = node->next;
		node->next->prev = node->prev;
		node->next = node->prev = NULL;
	}
}
/* First node, unlinked; NULL when empty. Safe to use as a loop that calls out: `while ((n =
 * kp_list_pop(&l)))`. */
static inline struct kp_list *kp_list_pop(struct kp_list *head)
{
	struct kp_list *node = head->next;
	if (node == head) {
		return NULL;
	}
	kp_list_del(node);
	return node;
}
/* Moves everything from `from` to the empty `to`. */
static inline void kp_list_take(struct kp_list *to, struct kp_list *from)
{
	kp_list_init(to);
	if (!kp_list_empty(from)) {
		*to = *from;
		to->next->prev = to->prev->next = to;
		kp_list_init(from);
	}
}
#define kp_list_each(node, head) \
	for (struct kp_list *node = (head)->next; node != (head); node = node->next)
/* The body may delete `node` itself, no other. */
#define kp_list_each_safe(node, head)                                                        \
	for (struct kp_list *node = (head)->next, *node##_next = node->next; node != (head); \
		node = node##_next, node##_next = node->next)

#endif
