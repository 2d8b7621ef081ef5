/* Lists, vectors, reference counts, macros, time: the small parts of lib/base. */
#include "base/clock.h"
#include "base/list.h"
#include "base/ref.h"
#include "base/vec.h"
#include "tests/test.h"

struct item {
	int id;
	struct kp_list link;
};

static int id_of(const struct kp_list *node)
{
	return KP_CONTAINER(node, struct item, link)->id;
}

/* The ids of a list, and that the backward links agree. */
static void assert_list(const struct kp_list *head, const char *want)
{
	char got[64] = "";
	size_t n = 0;
	kp_list_each (node, head) {
		assert_ptr_equal(node->next->prev, node);
		n += (size_t)snprintf(got + n, sizeof(got) - n, "%d", id_of(node));
	}
	assert_ptr_equal(head->next->prev, head);
	assert_string_equal(got, want);
}

static void list_push_pop_del(void **state)
{
	(void)state;
	struct item items[5] = { 0 };
	struct kp_list head;
	kp_list_init(&head);
	assert_true(kp_list_empty(&head));
	assert_null(kp_list_pop(&head));
	for (int i = 0; i < 5; i++) {
		items[i].id = i;
		assert_false(kp_list_linked(&items[i].link));
		kp_list_push(&head, &items[i].link);
		assert_true(kp_list_linked(&items[i].link));
	}
	assert_list(&head, "01234");
	kp_list_del(&items[2].link);
	kp_list_del(&items[2].link); /* out already */
	assert_false(kp_list_linked(&items[2].link));
	assert_list(&head, "0134");
	assert_int_equal(id_of(kp_list_pop(&head)), 0);
	assert_list(&head, "134");
	kp_list_each_safe (node, &head) {
		if (id_of(node) != 3) {
			kp_list_del(node);
		}
	}
	assert_list(&head, "3");
	kp_list_push(&head, &items[0].link);
	assert_list(&head, "30");
	while (kp_list_pop(&head)) {
	}
	assert_true(kp_list_empty(&head));
}

static void list_take_moves_everything(void **state)
{
	(void)state;
	struct item items[3] = { 0 };
	struct kp_list from, to;
	kp_list_init(&from);
	kp_list_take(&to, &from);
	assert_list(&to, "");
	for (int i = 0; i < 3; i++) {
		items[i].id = i;
		kp_list_push(&from, &items[i].link);
	}
	kp_list_take(&to, &from);
	assert_list(&to, "012");
	assert_list(&from, "");
	kp_list_del(&items[1].link);
	kp_list_push(&from, &items[1].link);
	assert_list(&to, "02");
	assert_list(&from, "1");
}

static void push_twice(void *arg)
{
	static struct kp_list head;
	struct kp_list *node = arg;
	kp_list_init(&head);
	kp_list_push(&head, node);
	kp_list_push(&head, node);
}
static void pushing_twice_is_a_bug(void **state)
{
	(void)state;
	struct item item = { 0 };
	assert_dies(push_twice, &item.link);
}

static void vectors_grow_and_keep(void **state)
{
	(void)state;
	KP_VEC(uint32_t)
	v = { 0 };
	for (uint32_t i = 0; i < 10000; i++) {
		kp_vec_push(&v, i * 3);
		assert_true(v.cap >= v.n);
	}
	assert_int_equal(v.n, 10000);
	for (uint32_t i = 0; i < 10000; i++) {
		assert_int_equal(v.p[i], i * 3);
	}
	assert_int_equal(*kp_vec_last(&v), 29997);
	kp_vec_reserve(&v, 50000);
	assert_true(v.cap >= 60000);
	assert_int_equal(v.n, 10000);
	kp_vec_fini(&v);
	assert_null(v.p);
	kp_vec_fini(&v);
}

static void put_too_often(void *arg)
{
	struct kp_refcount *r = arg;
	(void)kp_ref_put(r);
	(void)kp_ref_put(r);
}
static void get_a_dead_one(void *arg)
{
	struct kp_refcount *r = arg;
	(void)kp_ref_put(r);
	kp_ref_get(r);
}
static void references(void **state)
{
	(void)state;
	struct kp_refcount r;
	kp_ref_init(&r);
	kp_ref_get(&r);
	assert_false(kp_ref_put(&r));
	assert_dies(put_too_often, &r);
	assert_dies(get_a_dead_one, &r);
	assert_true(kp_ref_put(&r));
}

static int freed;
static void give_up(int *p)
{
	freed += p ? *p : 0;
}
KP_AUTO_DEFINE(int, counted, give_up);
static int *hand_on(int *p, bool steal)
{
	KP_AUTO(counted) int *mine = p;
	return steal ? kp_steal(mine) : NULL;
}
static void scope_cleanup_and_steal(void **state)
{
	(void)state;
	int x = 5;
	assert_null(hand_on(&x, false));
	assert_int_equal(freed, 5);
	assert_ptr_equal(hand_on(&x, true), &x);
	assert_int_equal(freed, 5);
	char *z = kp_xstrdup("abc");
	assert_string_equal(z, "abc");
	kp_free(&z);
	assert_null(z);
}

static void checked_arithmetic(void **state)
{
	(void)state;
	size_t r = 7;
	assert_true(kp_size_add(SIZE_MAX - 1, 1, &r) && r == SIZE_MAX);
	assert_false(kp_size_add(SIZE_MAX, 1, &r));
	assert_true(kp_size_mul(SIZE_MAX, 1, &r) && r == SIZE_MAX);
	assert_true(kp_size_mul(SIZE_MAX, 0, &r) && r == 0);
	assert_false(kp_size_mul(SIZE_MAX / 2 + 1, 2, &r));
	assert_int_equal(r, 0); /* untouched by the failure */
	assert_ptr_equal(kp_unconst((const void *)&r), &r);
}

static void times(void **state)
{
	(void)state;
	static const struct {
		int64_t ns;
		const char *want;
	} table[] = {
		{ 0, "1970-01-01T00:00:00.000Z" },
		{ INT64_C(1795968726123456789), "2026-11-29T16:12:06.123Z" },
		{ INT64_C(951827696999999999), "2000-02-29T12:34:56.999Z" },
		{ INT64_C(4102444799000000000), "2099-12-31T23:59:59.000Z" },
	};
	for (size_t i = 0; i < KP_LEN(table); i++) {
		char text[25];
		kp_time_rfc3339(table[i].ns, text);
		assert_string_equal(text, table[i].want);
	}
	int64_t a = kp_now_ns(), b = kp_now_ns();
	assert_true(a > 0 && b >= a);
	assert_true(kp_wall_ns() > INT64_C(1700000000) * KP_NS_PER_S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(list_push_pop_del),
		cmocka_unit_test(list_take_moves_everything),
		cmocka_unit_test(pushing_twice_is_a_bug),
		cmocka_unit_test(vectors_grow_and_keep),
		cmocka_unit_test(references),
		cmocka_unit_test(scope_cleanup_and_steal),
		cmocka_unit_test(checked_arithmetic),
		cmocka_unit_test(times),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
