/* Manifests: what a set holds, duplicates over files, the limits, paths and ConfigMap mounts, the form of problems. What is valid is shown by
   corpus_test.c. */
#include "api/manifest.h"
#include "base/fs.h"
#include "tests/test.h"

#include <sys/stat.h>

#define POOL(name)                                                                                 \
	"{apiVersion: inference.networking.k8s.io/v1, kind: InferencePool, metadata: {name: " name \
	"}, spec: {selector: {matchLabels: {a: b}}, targetPorts: [{number: 80}]}}"
#define ENGINE(name, port)                                                                                           \
	"{apiVersion: kelpie.dev/v1alpha1, kind: InferenceEngine, metadata: {name: " name                            \
	"}, spec: {poolRef: {name: p}, model: {name: m}, engine: {type: vllm}, endpoints: [{address: h, port: " port \
	"}]}}"

static struct kp_problems problems;
static struct kp_object_set set;
static struct kp_err err;

static int start(void **state)
{
	(void)state;
	kp_problems_init(&problems);
	set = (struct kp_object_set){ 0 };
	err = KP_ERR_INIT;
	return 0;
}

static int stop(void **state)
{
	(void)state;
	kp_problems_fini(&problems);
	kp_object_set_fini(&set);
	return 0;
}

static int parse(const char *text)
{
	struct kp_manifest_file f = { .name = "f.yaml", .text = kp_str_c(text) };
	return kp_manifest_parse(&f, 1, KP_S("default"), &set, &problems, &err);
}

static void expect_problem(size_t i, const char *want)
{
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1 << 16);
	assert_true(i < problems.n);
	kp_problem_write(&problems.p[i], &b);
	assert_string_equal(kp_buf_cstr(&b), want);
}

static void everything_is_decoded(void **state)
{
	(void)state;
	assert_int_equal(kp_manifest_load("tests/corpus/manifests/good/pool-everything.yaml",
				 KP_S("default"), &set, &problems, &err),
		0);
	assert_int_equal(set.n, 1);
	const struct kp_object *o =
		kp_object_set_find(&set, KP_KIND_INFERENCE_POOL, KP_S("prod"), KP_S("everything"));
	assert_non_null(o);
	assert_string_equal(o->file, "tests/corpus/manifests/good/pool-everything.yaml");
	assert_int_equal(o->line, 1);
	assert_int_equal(o->meta.n_labels, 2);
	assert_str_lit(o->meta.labels[0].key, "app.kubernetes.io/name");
	assert_str_lit(o->meta.labels[1].value, "");
	assert_str_lit(o->meta.annotations[0].value, "any text \xe2\x98\x83");
	const struct kp_inference_pool_spec *p = o->spec.pool;
	assert_str_lit(p->selector.match_labels[0].value, "demo");
	assert_int_equal(p->n_target_ports, 2);
	assert_int_equal(p->target_ports[1].number, 65535);
	assert_int_equal(p->app_protocol, KP_INFERENCE_POOL_APP_PROTOCOL_KUBERNETES_IO_H2C);
	assert_str_lit(p->endpoint_picker_ref->group, "");
	assert_str_lit(p->endpoint_picker_ref->kind, "Service");
	assert_int_equal(p->endpoint_picker_ref->port->number, 9002);
	assert_int_equal(p->endpoint_picker_ref->failure_mode,
		KP_INFERENCE_POOL_ENDPOINT_PICKER_REF_FAILURE_MODE_FAIL_OPEN);
	kp_object_set_fini(&set);

	assert_int_equal(kp_manifest_load("tests/corpus/manifests/good/engine-everything.yaml",
				 KP_S("ns"), &set, &problems, &err),
		0);
	o = kp_object_set_find(&set, KP_KIND_INFERENCE_ENGINE, KP_S("ns"), KP_S("demo"));
	const struct kp_inference_engine_spec *e = o->spec.engine;
	assert_str_lit(e->pool_ref.name, "demo");
	assert_str_lit(e->model.name, "HuggingFaceTB/SmolLM2-135M-Instruct:main");
	assert_int_equal(e->model.n_aliases, 2);
	assert_str_lit(e->model.aliases[1], "gpt-4o-mini");
	assert_int_equal(e->engine.type, KP_INFERENCE_ENGINE_ENGINE_TYPE_VLLM);
	assert_int_equal(e->engine.protocol, KP_INFERENCE_ENGINE_ENGINE_PROTOCOL_GRPC);
	assert_int_equal(e->tokenizer.source, KP_INFERENCE_ENGINE_TOKENIZER_SOURCE_PATH);
	assert_str_lit(e->tokenizer.path, "/models/smollm2 with spaces/model.gguf");
	assert_int_equal(e->n_endpoints, 6);
	assert_str_lit(e->endpoints[1].address, "::1");
	assert_int_equal(e->endpoints[3].port, 65535);
}

static void defaults_are_filled_in(void **state)
{
	(void)state;
	static const char *const files[] = { "engine-defaults", "engine-nulls",
		"engine-empty-lists", "engine-tokenizer-empty" };
	for (size_t i = 0; i < KP_LEN(files); i++) {
		char path[200];
		snprintf(path, sizeof(path), "tests/corpus/manifests/good/%s.yaml", files[i]);
		assert_int_equal(kp_manifest_load(path, KP_S("default"), &set, &problems, &err), 0);
		const struct kp_inference_engine_spec *e = set.objects[0].spec.engine;
		assert_int_equal(e->tokenizer.source, KP_INFERENCE_ENGINE_TOKENIZER_SOURCE_ENGINE);
		assert_null(e->tokenizer.path.p);
		assert_int_equal(e->engine.protocol, KP_INFERENCE_ENGINE_ENGINE_PROTOCOL_GRPC);
		assert_int_equal(e->model.n_aliases, 0);
		kp_object_set_fini(&set);
	}
	assert_int_equal(parse(POOL("p")), 0);
	assert_int_equal(
		set.objects[0].spec.pool->app_protocol, KP_INFERENCE_POOL_APP_PROTOCOL_HTTP);
	assert_null(set.objects[0].spec.pool->endpoint_picker_ref);
}

static void the_set_is_sorted(void **state)
{
	(void)state;
	const struct kp_manifest_file files[] = {
		{ .name = "2.yaml", .text = KP_S(ENGINE("b", "1") "\n---\n" ENGINE("a", "1")) },
		{ .name = "1.yaml", .text = KP_S(POOL("z") "\n---\n" POOL("x")) },
	};
	assert_int_equal(kp_manifest_parse(files, 2, KP_S("n"), &set, &problems, &err), 0);
	static const char *const want[] = { "x", "z", "a", "b" };
	for (size_t i = 0; i < 4; i++) {
		assert_str(set.objects[i].meta.name, kp_str_c(want[i]));
		assert_str_lit(set.objects[i].meta.namespace_, "n");
	}
	assert_int_equal(set.objects[0].line, 3);
	assert_ptr_equal(kp_object_set_find(&set, KP_KIND_INFERENCE_ENGINE, KP_S("n"), KP_S("a")),
		&set.objects[2]);
	assert_null(kp_object_set_find(&set, KP_KIND_INFERENCE_ENGINE, KP_S("n"), KP_S("x")));
	assert_null(kp_object_set_find(&set, KP_KIND_INFERENCE_ENGINE, KP_S("m"), KP_S("a")));
	assert_int_equal(kp_kind_find(KP_S("kelpie.dev/v1alpha1"), KP_S("InferenceEngine")),
		KP_KIND_INFERENCE_ENGINE);
	assert_int_equal(
		kp_kind_find(KP_S("kelpie.dev/v1"), KP_S("InferenceEngine")), KP_KIND_NONE);
}

static void duplicates_name_both_places(void **state)
{
	(void)state;
	const struct kp_manifest_file files[] = {
		{ .name = "a.yaml", .text = KP_S("# \n" POOL("p")) },
		{ .name = "b.yaml", .text = KP_S(POOL("p")) },
		{ .name = "c.yaml", .text = KP_S(ENGINE("p", "0")) }, /* another kind */
		{ .name = "d.yaml",
			.text = KP_S(ENGINE("p", "1")) }, /* the first one was refused */
	};
	assert_int_equal(kp_manifest_parse(files, 4, KP_S("default"), &set, &problems, &err), -1);
	assert_int_equal(problems.n, 3);
	expect_problem(
		0, "b.yaml:1:1: error: InferencePool default/p: already defined at a.yaml:2");
	expect_problem(1,
		"c.yaml:1:177: error: InferenceEngine default/p: spec.endpoints[0].port: Invalid value: 0: should be greater than or equal to 1");
	expect_problem(
		2, "d.yaml:1:1: error: InferenceEngine default/p: already defined at c.yaml:1");
	assert_string_equal(err.msg,
		"load manifests: 3 errors, the first: b.yaml:1:1: error: InferencePool default/p: already defined at a.yaml:2");
	assert_null(set.arena);
}

/* What rules between objects say about an object of the set. */
static void later_problems_have_places(void **state)
{
	(void)state;
	assert_int_equal(
		parse("apiVersion: kelpie.dev/v1alpha1\nkind: InferenceEngine\nmetadata: {name: e}\nspec:\n  poolRef:\n    name: p\n"
		      "  model: {name: m}\n  engine: {type: vllm}\n  endpoints:\n  - address: h\n    port: 1\n"),
		0);
	const struct kp_object *o = &set.objects[0];
	kp_problem_object(&problems, o, "spec.poolRef.name", "Not found: \"%s\"", "p");
	kp_problem_object(&problems, o, "spec.endpoints[0].port", "taken");
	kp_problem_object(&problems, o, "spec.endpoints[0].missing", "taken");
	kp_problem_object(&problems, o, "spec.endpoints[3].port", "taken");
	kp_problem_object(&problems, o, "spec", "odd");
	kp_problem_object(&problems, o, "", "odd");
	expect_problem(0,
		"f.yaml:6:11: error: InferenceEngine default/e: spec.poolRef.name: Not found: \"p\"");
	expect_problem(
		1, "f.yaml:11:11: error: InferenceEngine default/e: spec.endpoints[0].port: taken");
	expect_problem(2,
		"f.yaml:10:5: error: InferenceEngine default/e: spec.endpoints[0].missing: taken");
	expect_problem(
		3, "f.yaml:10:3: error: InferenceEngine default/e: spec.endpoints[3].port: taken");
	expect_problem(4, "f.yaml:1:1: error: InferenceEngine default/e: spec: odd");
	expect_problem(5, "f.yaml:1:1: error: InferenceEngine default/e: odd");
	assert_int_equal(kp_problems_err(&problems, &err), -1);
	assert_non_null(strstr(err.msg, "6 errors, the first: f.yaml:6:11"));
}

static void long_names_are_told_apart(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1 << 16);
	for (int i = 0; i < 2; i++) {
		char name[254];
		memset(name, 'x', 253);
		name[252] = (char)('a' + i);
		name[253] = '\0';
		kp_buf_printf(&b, POOL("%s") "\n---\n", name);
	}
	assert_int_equal(parse(kp_buf_cstr(&b)), 0);
	assert_int_equal(set.n, 2);
}

static void one_bad_file_does_not_hide_the_others(void **state)
{
	(void)state;
	const struct kp_manifest_file files[] = {
		{ .name = "a.yaml", .text = KP_S("a: [\n") },
		{ .name = "b.json", .text = KP_S("{\"a\": tru}") },
		{ .name = "c.yaml",
			.text = KP_S("kind: x\napiVersion: v1\n---\n" ENGINE("e", "x")) },
	};
	assert_int_equal(kp_manifest_parse(files, 3, KP_S("default"), &set, &problems, &err), -1);
	assert_int_equal(problems.n_errors, 4);
	assert_int_equal(problems.n_warnings, 1);
	expect_problem(0, "a.yaml:2:1: error: did not find expected node content");
	expect_problem(1, "b.json:1:1: error: apiVersion: Required value"); /* YAML: {a: "tru"} */
	expect_problem(2, "b.json:1:1: error: kind: Required value");
	expect_problem(3,
		"c.yaml:1:7: warning: kind: ignored: not a kind that Kelpie reads: \"x\" in version \"v1\"");
}

static void counts_beyond_the_maximum(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1 << 20);
	for (int i = 0; i < 150; i++) {
		kp_buf_printf(
			&b, "kind: K%d\napiVersion: v1\n---\n" ENGINE("e%d", "0") "\n---\n", i, i);
	}
	assert_int_equal(parse(kp_buf_cstr(&b)), -1);
	assert_int_equal(problems.n_errors, 150);
	assert_int_equal(problems.n_warnings, 150);
	assert_int_equal(problems.n, 2 * KP_PROBLEMS_MAX);
	assert_non_null(strstr(err.msg, "150 errors, the first: f.yaml:4:"));
	/* One object with very many errors. */
	stop(NULL);
	start(NULL);
	kp_buf_reset(&b);
	kp_buf_addz(&b, ENGINE("e", "1"));
	b.n--;
	for (int i = 0; i < 5000; i++) {
		kp_buf_printf(&b, ", x%d: 1", i);
	}
	kp_buf_addc(&b, '}');
	assert_int_equal(parse(kp_buf_cstr(&b)), -1);
	assert_int_equal(problems.n, KP_PROBLEMS_MAX);
	assert_int_equal(problems.n_errors, 5000);
}

static void texts_of_problems_are_clean(void **state)
{
	(void)state;
	assert_int_equal(
		parse("apiVersion: kelpie.dev/v1alpha1\nkind: InferenceEngine\nmetadata: {name: \"a\\nb\\e\", \"x\\ny\": 1}\n"),
		-1);
	for (size_t i = 0; i < problems.n; i++) {
		KP_AUTO(buf) struct kp_buf b;
		kp_buf_init(&b, 1 << 16);
		kp_problem_write(&problems.p[i], &b);
		assert_true(kp_str_find_char(kp_buf_str(&b), '\n') < 0 &&
			    kp_str_find_char(kp_buf_str(&b), '\x1b') < 0);
	}
	expect_problem(
		2, "f.yaml:3:28: error: InferenceEngine default/a?b?: metadata.x?y: unknown field");
	stop(NULL);
	start(NULL);
	/* A name that is cut inside a character. */
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1 << 16);
	kp_buf_addz(
		&b, "apiVersion: kelpie.dev/v1alpha1\nkind: InferenceEngine\nmetadata: {name: ");
	for (int i = 0; i < 200; i++) {
		kp_buf_addz(&b, "é");
	}
	kp_buf_addz(&b, "}\n");
	assert_int_equal(parse(kp_buf_cstr(&b)), -1);
	assert_non_null(strstr(problems.p[0].object, "éé\xef\xbf\xbd"));
}

static void annotations_have_a_total_limit(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 1 << 20);
	kp_buf_addz(&b,
		"apiVersion: kelpie.dev/v1alpha1\nkind: InferenceEngine\nmetadata:\n  name: e\n  annotations:\n    a: ");
	for (int i = 0; i < 256 << 10; i++) {
		kp_buf_addc(&b, 'x');
	}
	kp_buf_addz(&b, "\nspec: {poolRef: {name: p}, model: {name: m}, engine: {type: vllm}}\n");
	assert_int_equal(parse(kp_buf_cstr(&b)), -1);
	assert_int_equal(problems.n, 1);
	expect_problem(0,
		"f.yaml:6:5: error: InferenceEngine default/e: metadata.annotations: Too long: may not be more than 262144 bytes");
}

/* --- paths --------------------------------------------------------------------------------------------------------- */

static char dir[64];

static const char *in(const char *name)
{
	static char path[4][200];
	static int turn;
	turn = (turn + 1) % 4;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", dir, name);
	return path[turn];
}

static void write_file(const char *name, const char *text)
{
	assert_int_equal(kp_fs_write_atomic(in(name), kp_str_c(text), 0600, &err), 0);
}

static int make_dir(void **state)
{
	memcpy(dir, "/tmp/kp-manifest-XXXXXX", sizeof("/tmp/kp-manifest-XXXXXX"));
	return mkdtemp(dir) ? start(state) : -1;
}

static int remove_dir(void **state)
{
	char command[100];
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	return system(command) || stop(state);
}

static int load(const char *path)
{
	return kp_manifest_load(path, KP_S("default"), &set, &problems, &err);
}

static void directories(void **state)
{
	(void)state;
	write_file("b.yml", POOL("b"));
	write_file("a.yaml", POOL("a"));
	write_file("c.json", "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[]}");
	write_file(".hidden.yaml", "broken: [");
	write_file("a.yaml.bak", "broken: [");
	write_file("README", "broken: [");
	assert_int_equal(mkdir(in("sub.yaml"), 0700), 0);
	assert_int_equal(mkfifo(in("pipe.yaml"), 0600), 0); /* nothing waits for its writer */
	struct kp_manifest_files f;
	assert_int_equal(kp_manifest_read(dir, &f, &err), 0);
	assert_int_equal(f.n, 3);
	assert_string_equal(f.files[0].name, in("a.yaml"));
	assert_string_equal(f.files[1].name, in("b.yml"));
	assert_string_equal(f.files[2].name, in("c.json"));
	kp_manifest_files_fini(&f);
	assert_int_equal(load(dir), 0);
	assert_int_equal(set.n, 2);
	kp_object_set_fini(&set);
	char slashes[80];
	snprintf(slashes, sizeof(slashes), "%s///", dir);
	assert_int_equal(load(slashes), 0);
	assert_string_equal(set.objects[0].file, in("a.yaml"));
}

static void empty_and_missing(void **state)
{
	(void)state;
	assert_int_equal(load(dir), 0);
	assert_int_equal(set.n, 0);
	assert_null(kp_object_set_find(&set, KP_KIND_INFERENCE_POOL, KP_S("a"), KP_S("b")));
	kp_object_set_fini(&set);
	assert_int_equal(load(in("none.yaml")), -1);
	assert_int_equal(err.code, KP_NOT_FOUND);
	assert_int_equal(problems.n_errors, 1);
	assert_int_equal(problems.p[0].line, 0);
	assert_string_equal(problems.p[0].file, in("none.yaml"));
	assert_int_equal(mkfifo(in("pipe"), 0600), 0);
	assert_int_equal(load(in("pipe")), -1);
	assert_non_null(strstr(err.msg, "not a regular file"));
	assert_int_equal(symlink("nowhere", in("dangling.yaml")), 0);
	assert_int_equal(load(dir), -1);
	assert_non_null(strstr(err.msg, "dangling.yaml"));
}

/* The layout of kubelet's AtomicWriter. */
static void config_map_mounts(void **state)
{
	(void)state;
	assert_int_equal(mkdir(in("..2026_1"), 0700), 0);
	write_file("..2026_1/pool.yaml", POOL("one"));
	assert_int_equal(symlink("..2026_1", in("..data")), 0);
	assert_int_equal(symlink("..data/pool.yaml", in("pool.yaml")), 0);
	assert_int_equal(load(dir), 0);
	assert_int_equal(set.n, 1);
	assert_str_lit(set.objects[0].meta.name, "one");
	assert_string_equal(set.objects[0].file, in("pool.yaml"));
	kp_object_set_fini(&set);
	/* The next version: what the links beside ..data say does not matter, only the version does. */
	assert_int_equal(mkdir(in("..2026_2"), 0700), 0);
	write_file("..2026_2/pool.yaml", POOL("two"));
	write_file("..2026_2/more.yaml", POOL("three"));
	assert_int_equal(symlink("..2026_2", in("..data_tmp")), 0);
	assert_int_equal(rename(in("..data_tmp"), in("..data")), 0);
	assert_int_equal(load(dir), 0);
	assert_int_equal(set.n, 2);
	kp_object_set_fini(&set);
	assert_int_equal(symlink(dir, in("link")), 0); /* a link to the directory */
	assert_int_equal(load(in("link")), 0);
	assert_int_equal(set.n, 2);
}

static void limits_of_files(void **state)
{
	(void)state;
	KP_AUTO(buf) struct kp_buf b;
	kp_buf_init(&b, 4 << 20);
	while (b.n < KP_MANIFEST_MAX_FILE) {
		kp_buf_addc(&b, '#');
	}
	write_file("a.yaml", kp_buf_cstr(&b));
	assert_int_equal(load(dir), 0);
	kp_object_set_fini(&set);
	kp_buf_addc(&b, '#');
	write_file("a.yaml", kp_buf_cstr(&b));
	assert_int_equal(load(dir), -1);
	assert_int_equal(err.code, KP_TOO_LARGE);
	assert_non_null(strstr(err.msg, "a.yaml`: more than 1048576 bytes in one manifest"));
	b.n -= 100;
	for (int i = 0; i < 17; i++) {
		char name[20];
		snprintf(name, sizeof(name), "a%d.yaml", i);
		write_file(name, kp_buf_cstr(&b));
	}
	write_file("a.yaml", "");
	assert_int_equal(load(dir), -1);
	assert_non_null(strstr(err.msg, "more than 16777216 bytes in all manifests"));
}

static void limits_of_objects(void **state)
{
	(void)state;
	static struct kp_buf texts[11];
	struct kp_manifest_file files[11];
	for (int f = 0; f < 11; f++) {
		kp_buf_init(&texts[f], 1 << 20);
		for (int i = 0; i < 1000; i++) {
			kp_buf_printf(&texts[f], POOL("p%d-%d") "\n---\n", f, i);
		}
		files[f] = (struct kp_manifest_file){ .name = "many.yaml",
			.text = kp_buf_str(&texts[f]) };
	}
	assert_int_equal(kp_manifest_parse(files, 10, KP_S("default"), &set, &problems, &err), 0);
	assert_int_equal(set.n, KP_MANIFEST_MAX_OBJECTS);
	assert_non_null(
		kp_object_set_find(&set, KP_KIND_INFERENCE_POOL, KP_S("default"), KP_S("p9-999")));
	kp_object_set_fini(&set);
	assert_int_equal(kp_manifest_parse(files, 11, KP_S("default"), &set, &problems, &err), -1);
	assert_int_equal(err.code, KP_TOO_LARGE);
	expect_problem(0, "many.yaml:1:1: error: more than 10000 objects");
	for (int f = 0; f < 11; f++) {
		kp_buf_fini(&texts[f]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(everything_is_decoded, start, stop),
		cmocka_unit_test_setup_teardown(defaults_are_filled_in, start, stop),
		cmocka_unit_test_setup_teardown(the_set_is_sorted, start, stop),
		cmocka_unit_test_setup_teardown(duplicates_name_both_places, start, stop),
		cmocka_unit_test_setup_teardown(later_problems_have_places, start, stop),
		cmocka_unit_test_setup_teardown(long_names_are_told_apart, start, stop),
		cmocka_unit_test_setup_teardown(one_bad_file_does_not_hide_the_others, start, stop),
		cmocka_unit_test_setup_teardown(counts_beyond_the_maximum, start, stop),
		cmocka_unit_test_setup_teardown(texts_of_problems_are_clean, start, stop),
		cmocka_unit_test_setup_teardown(annotations_have_a_total_limit, start, stop),
		cmocka_unit_test_setup_teardown(directories, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(empty_and_missing, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(config_map_mounts, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(limits_of_files, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(limits_of_objects, start, stop),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
