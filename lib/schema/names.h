/* Kubernetes' rules for names, as k8s.io/apimachinery/pkg/util/validation has them. `kp_is_*` say yes or no; `kp_name_check_*` add one
   error per broken rule at the current path, with its texts. */
#ifndef KP_SCHEMA_NAMES_H
#define KP_SCHEMA_NAMES_H

#include "schema/errors.h"

bool kp_is_dns_label(kp_str s);      /* RFC 1123, at most 63 */
bool kp_is_dns_subdomain(kp_str s);  /* RFC 1123, at most 253 */
bool kp_is_label_value(kp_str s);    /* at most 63, may be empty */
bool kp_is_qualified_name(kp_str s); /* [subdomain "/"] name of at most 63 */
/* An IPv4 or IPv6 address in text form; no zone, no brackets, no IPv4-mapped IPv6 (CEL's isIP). */
bool kp_is_ip(kp_str s);
/* Their shapes without the length limits: what the regular expressions say. */
bool kp_has_dns_subdomain_shape(kp_str s);
bool kp_has_name_shape(kp_str s); /* ([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9] */

void kp_name_check_subdomain(struct kp_field_errors *e, kp_str s);
void kp_name_check_dns_label(struct kp_field_errors *e, kp_str s);
void kp_name_check_label_value(struct kp_field_errors *e, kp_str s);
/* shown: what the error shows as the value (an annotation's key is checked in lower case). */
void kp_name_check_qualified(struct kp_field_errors *e, kp_str s, kp_str shown);

#endif
