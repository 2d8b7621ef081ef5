/* Manifests: text of YAML or JSON files into a checked set of our objects, with every error at its file, line and column.

   What counts: each document is one object, or a List of them. Our kinds are checked as an API server would (api/object.h). Other
   kinds of other API groups are left alone with a warning, since people keep manifests together; a kind of ours in a wrong
   group or version, and an unknown kind in a group of ours, are errors. The same kind, namespace and name twice is an error that
   names both places. Rules between objects are not checked here. docs/manifests.md is the user's side of this page.

   The set is all or nothing: with any error there is no set. It is immutable and holds no pointer into the texts. */
#ifndef KP_API_MANIFEST_H
#define KP_API_MANIFEST_H

#include "api/object.h"

enum {
	KP_MANIFEST_MAX_FILES = 1000,
	KP_MANIFEST_MAX_FILE = 1 << 20,   /* bytes */
	KP_MANIFEST_MAX_TOTAL = 16 << 20, /* bytes of all files */
	KP_MANIFEST_MAX_OBJECTS = 10000,
	KP_PROBLEMS_MAX = 100, /* errors kept, and warnings kept; the rest is counted */
};

struct kp_problem {
	bool warning;
	const char *file;
	uint32_t line, column; /* from 1; 0: the whole file */
	const char *object;    /* "InferenceEngine default/demo", "" when not known */
	const char *field;     /* "spec.endpoints[0].port", "" for the object itself */
	const char *message;
};
struct kp_problems {
	struct kp_arena *arena; /* holds all texts */
	struct kp_problem *
		p; /* sorted by file, line, column; at most KP_PROBLEMS_MAX errors and as many warnings */
	size_t n;
	size_t n_errors, n_warnings; /* all there were, n of them are kept */
};
void kp_problems_init(struct kp_problems *p);
void kp_problems_fini(struct kp_problems *p);
/* "pool.yaml:12:9: error: InferenceEngine default/demo: spec.endpoints[0].port: Invalid value: ..." */
void kp_problem_write(const struct kp_problem *p, struct kp_buf *out);

/* -1: *err says how many errors there are and the first of them. At least one must be there. */
int kp_problems_err(const struct kp_problems *p, struct kp_err *err);
/* An error in an object that parsed, found by rules between objects; its place is the field's, or the nearest parent's. */
void kp_problem_object(struct kp_problems *p, const struct kp_object *o, const char *field,
	const char *fmt, ...) KP_PRINTF(4, 5);

struct kp_object_set {
	struct kp_arena *arena;
	struct kp_object *objects; /* sorted by kind, namespace, name */
	size_t n;
};
void kp_object_set_fini(struct kp_object_set *s); /* zeroed is fine */
/* NULL: not there. */
const struct kp_object *kp_object_set_find(
	const struct kp_object_set *s, enum kp_kind kind, kp_str ns, kp_str name);

struct kp_manifest_file {
	const char *name; /* for messages; "*.json" is tried as JSON first */
	kp_str text;
};
/* Pure. `problems` was initialised by the caller and gets what is found, warnings also on success. -1: *err says how many errors there
   are and the first of them. */
int kp_manifest_parse(const struct kp_manifest_file *files, size_t n, kp_str default_namespace,
	struct kp_object_set *ret, struct kp_problems *problems, struct kp_err *err) KP_MUST_USE;

/* The files behind a path, read into memory. Blocking. A file is taken whatever it is called; of a directory those called *.yaml, *.yml
   and *.json, in the order of their names, without hidden ones and without going into subdirectories. A directory that kubelet
   mounted from a ConfigMap is read in one consistent version. */
struct kp_manifest_files {
	struct kp_arena *arena;
	struct kp_manifest_file *files;
	size_t n;
};
int kp_manifest_read(
	const char *path, struct kp_manifest_files *ret, struct kp_err *err) KP_MUST_USE;
void kp_manifest_files_fini(struct kp_manifest_files *f);

/* Both in one. An unreadable path is a problem too. */
int kp_manifest_load(const char *path, kp_str default_namespace, struct kp_object_set *ret,
	struct kp_problems *problems, struct kp_err *err) KP_MUST_USE;

#endif
