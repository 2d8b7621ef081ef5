// The API oracle: what a kube-apiserver says about an object of one of our kinds, by running its own packages: strict decoding, pruning,
// defaulting, metadata, structural validation, list types and CEL, in the order of a create request with fieldValidation=Strict.
//
//	validate CRD.yaml…
//
// The definitions are validated first (also their CEL cost); their errors end the program. Then frames on stdin: a letter, a 32-bit
// little-endian length, the body. One line of JSON per frame on stdout.
//
//	o  one object in YAML          {"parse": "", "strict": […], "errors": [{field, text}…], "object": {…}}
//	r  {"pattern": "", "texts": […]}   whether each text matches (RE2)
//	n  {"kind": "", "texts": […]}      apimachinery's errors for each text as a name of that kind
//	c  {"rule": "", "texts": […]}      the CEL rule, with self = each text, must be true
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"sort"

	"github.com/google/cel-go/cel"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	namevalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

type kind struct {
	structural *structuralschema.Structural
	validator  validation.SchemaValidator
	cel        *schemacel.Validator
}

type fieldError struct {
	Field string `json:"field"`
	Text  string `json:"text"` // without the field
}

type verdict struct {
	Parse  string                 `json:"parse"`
	Strict []string               `json:"strict"`
	Errors []fieldError           `json:"errors"`
	Object map[string]interface{} `json:"object"`
}

// register reads a definition as the API server does and prepares its version.
func register(path string, kinds map[string]*kind) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	v1 := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, v1); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(v1)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&v1.Spec)
	v1.Status.StoredVersions = []string{v1.Spec.Versions[0].Name}
	crd := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(v1, crd, nil); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if errs := crdvalidation.ValidateCustomResourceDefinition(context.Background(), crd); len(errs) > 0 {
		return fmt.Errorf("%s: %v", path, errs.ToAggregate())
	}
	schema, err := apiextensions.GetSchemaForVersion(crd, v1.Spec.Versions[0].Name)
	if err != nil {
		return err
	}
	k := &kind{}
	if k.structural, err = structuralschema.NewStructural(schema.OpenAPIV3Schema); err != nil {
		return err
	}
	if k.validator, _, err = validation.NewSchemaValidator(schema.OpenAPIV3Schema); err != nil {
		return err
	}
	k.cel = schemacel.NewValidator(k.structural, true, celconfig.PerCallLimit)
	kinds[v1.Spec.Group+"/"+v1.Spec.Versions[0].Name+"/"+v1.Spec.Names.Kind] = k
	return nil
}

// blocking: with one of these the API server does not run CEL (and says so in one more error, left out here).
func blocking(errs field.ErrorList) bool {
	for _, e := range errs {
		switch e.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		}
	}
	return false
}

func validate(text []byte, kinds map[string]*kind) (v verdict) {
	v.Strict, v.Errors = []string{}, []fieldError{}
	obj := map[string]interface{}{}
	data, err := text, error(nil)
	if !json.Valid(text) {
		data, err = yaml.YAMLToJSONStrict(text)
	}
	if err == nil {
		var strict []error
		if strict, err = kjson.UnmarshalStrict(data, &obj); err == nil && len(strict) > 0 {
			err = strict[0]
		}
	}
	if err != nil {
		v.Parse = err.Error()
		return v
	}
	apiVersion, _ := obj["apiVersion"].(string)
	name, _ := obj["kind"].(string)
	k := kinds[apiVersion+"/"+name]
	if k == nil {
		v.Parse = fmt.Sprintf("no matches for kind %q in version %q", name, apiVersion)
		return v
	}
	meta, found, unknown, err := objectmeta.GetObjectMetaWithOptions(obj, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		v.Parse = err.Error()
		return v
	}
	unknown = append(unknown, pruning.PruneWithOptions(obj, k.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	for _, path := range unknown {
		v.Strict = append(v.Strict, fmt.Sprintf("unknown field %q", path))
	}
	sort.Strings(v.Strict)
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, k.structural)
	if found {
		if err := objectmeta.SetObjectMeta(obj, meta); err != nil {
			v.Parse = err.Error()
			return v
		}
	}
	defaulting.Default(obj, k.structural)
	delete(obj, "status")
	u := &unstructured.Unstructured{Object: obj}
	if u.GetNamespace() == "" {
		u.SetNamespace("default")
	}
	errs := apivalidation.ValidateObjectMetaAccessor(u, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, validation.ValidateCustomResource(nil, obj, k.validator)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, k.structural, obj)...)
	if !blocking(errs) {
		celErrs, _ := k.cel.Validate(context.Background(), nil, k.structural, obj, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, celErrs...)
	}
	for _, e := range errs {
		v.Errors = append(v.Errors, fieldError{e.Field, e.ErrorBody()})
	}
	v.Object = obj
	return v
}

type question struct {
	Pattern, Kind, Rule string
	Texts               []string
}

func names(kind, text string) []string {
	switch kind {
	case "subdomain":
		return namevalidation.IsDNS1123Subdomain(text)
	case "label":
		return namevalidation.IsDNS1123Label(text)
	case "qualified":
		return namevalidation.IsQualifiedName(text)
	case "labelvalue":
		return namevalidation.IsValidLabelValue(text)
	}
	panic(kind)
}

func program(rule string) cel.Program {
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion(), true)
	env, err := base.StoredExpressionsEnv().Extend(cel.Variable("self", cel.StringType), library.IP())
	if err != nil {
		panic(err)
	}
	ast, issues := env.Compile(rule)
	if issues.Err() != nil {
		panic(issues.Err())
	}
	p, err := env.Program(ast)
	if err != nil {
		panic(err)
	}
	return p
}

func ask(kind byte, q question) interface{} {
	switch kind {
	case 'r':
		re, out := regexp.MustCompile(q.Pattern), []bool{}
		for _, t := range q.Texts {
			out = append(out, re.MatchString(t))
		}
		return out
	case 'n':
		out := [][]string{}
		for _, t := range q.Texts {
			out = append(out, append([]string{}, names(q.Kind, t)...))
		}
		return out
	}
	p, out := program(q.Rule), []bool{}
	for _, t := range q.Texts {
		r, _, err := p.Eval(map[string]interface{}{"self": t})
		if err != nil {
			panic(err)
		}
		out = append(out, r.Value() == true)
	}
	return out
}

func main() {
	kinds := map[string]*kind{}
	for _, path := range os.Args[1:] {
		if err := register(path, kinds); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(in, head); err == io.EOF {
			return
		} else if err != nil {
			panic(err)
		}
		body := make([]byte, binary.LittleEndian.Uint32(head[1:]))
		if _, err := io.ReadFull(in, body); err != nil {
			panic(err)
		}
		var answer interface{}
		if head[0] == 'o' {
			answer = validate(body, kinds)
		} else {
			q := question{}
			if err := json.Unmarshal(body, &q); err != nil {
				panic(err)
			}
			answer = ask(head[0], q)
		}
		line, err := json.Marshal(answer)
		if err != nil {
			panic(err)
		}
		out.Write(append(line, '\n'))
	}
}
