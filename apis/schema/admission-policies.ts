import { admittedKinds } from './crd.ts';
import type { CelRule, JsonSchema } from './json-schema.ts';

/** admissionregistration.k8s.io/v1, with the fields that ours use. */
interface AdmissionPolicy {
  readonly apiVersion: string;
  readonly kind: 'ValidatingAdmissionPolicy' | 'ValidatingAdmissionPolicyBinding';
  readonly metadata: { readonly name: string; readonly labels: Readonly<Record<string, string>> };
  readonly spec: object;
}

interface Validation {
  readonly expression: string;
  readonly message: string;
}

const GROUP = 'nodewall.io';

/** Expressions over `object.spec` that hold for each valid object, by the field of the spec. */
interface Found {
  /** Objects whose fields all have values. */
  readonly whole: Map<string, string[]>;
  readonly rules: Validation[];
}

/** A value of the spec: how to name it, and how to say something of all such values. */
interface Place {
  readonly self: string;
  /** As in `spec.ingress[].from[]`. */
  readonly path: string;
  readonly forAll: (expression: string) => string;
}

/**
 * ValidatingAdmissionPolicies for clusters whose API server cannot reach a webhook, with their
 * bindings. They refuse what a CustomResourceDefinition cannot: fields without a value, and the
 * rules `admission` of the schema. The definitions' own rules hold beside them, and are not
 * repeated.
 */
export function admissionPolicies(): AdmissionPolicy[] {
  const checks = admittedKinds().flatMap(({ kind, plural, schema }) => {
    const found: Found = { whole: new Map(), rules: [] };
    walk(schema, { self: 'object.spec', path: 'spec', forAll: (expression) => expression }, found);
    const whole = [...found.whole].map(([field, all]): Validation => {
      const message = `${kind}: a field of ${field} has no value (null), or a field in it; leave it out`;
      return { expression: all.join(' && '), message };
    });
    const rules = found.rules.map(({ message, ...others }) => ({
      ...others,
      message: `${kind}: ${message}`,
    }));
    return policy(`${plural}.${GROUP}`, {
      // An object that is too large for the API server's budget of CEL is stored, as without a
      // webhook: the controllers find what is wrong with it.
      failurePolicy: 'Ignore',
      resources: [plural],
      conditions: [{ name: 'new-spec', expression: 'oldObject == null || object.spec != oldObject.spec' }],
      validations: [...whole, ...rules],
    });
  });
  return [...checks, ...policy(`use.${GROUP}`, USE)];
}

/** The right to choose an address, as the webhook use.nodewall.io asks for it. */
const USE: PolicyOptions = {
  failurePolicy: 'Fail',
  resources: ['egresspolicies', 'clusteregresspolicies'],
  conditions: [
    {
      name: 'own-address',
      expression:
        "object.spec.?address.?allocation.orValue('') in ['Fixed', 'Dedicated'] && object.spec.?action.orValue('Gateway') == 'Gateway'" +
        // Also of an object that is being deleted: it is in force as long as a finalizer keeps it.
        ' && (oldObject == null || object.spec != oldObject.spec)',
    },
  ],
  validations: [
    {
      expression:
        "authorizer.group('nodewall.io').resource('egressgateways').namespace(object.metadata.?namespace.orValue(''))" +
        ".name(object.spec.?gateway.orValue('')).check('use').allowed()",
      message:
        'an address of its own needs the right to use the gateway (RBAC verb use on egressgateways.nodewall.io), and spec.gateway to name it unless the right is for all',
    },
  ],
};

interface PolicyOptions {
  readonly failurePolicy: 'Fail' | 'Ignore';
  readonly resources: readonly string[];
  readonly conditions: readonly { readonly name: string; readonly expression: string }[];
  readonly validations: readonly Validation[];
}

/** A policy and its binding. */
function policy(
  name: string,
  { failurePolicy, resources, conditions, validations }: PolicyOptions,
): AdmissionPolicy[] {
  const apiVersion = 'admissionregistration.k8s.io/v1';
  const metadata = { name, labels: { 'app.kubernetes.io/part-of': 'nodewall' } };
  const rule = { apiGroups: [GROUP], apiVersions: ['v1alpha1'], operations: ['CREATE', 'UPDATE'], resources };
  return [
    {
      apiVersion,
      kind: 'ValidatingAdmissionPolicy',
      metadata,
      spec: {
        failurePolicy,
        matchConstraints: { matchPolicy: 'Equivalent', resourceRules: [rule] },
        matchConditions: conditions,
        validations,
      },
    },
    {
      apiVersion,
      kind: 'ValidatingAdmissionPolicyBinding',
      metadata,
      spec: { policyName: name, validationActions: ['Deny'] },
    },
  ];
}

/** Variables have the number of their depth, so that none hides another. */
function walk(schema: JsonSchema, place: Place, found: Found, depth = 0): void {
  const { self, path, forAll } = place;
  const { properties, items, crd } = schema;
  for (const { rule, message } of crd?.admission ?? [])
    found.rules.push({
      expression: forAll(rule.replaceAll(/\bself\b/g, self)),
      message: `${path}: ${message}`,
    });
  if (isOpen(schema) || isRefused(crd?.cel)) return;
  if (properties !== undefined || schema.additionalProperties !== undefined)
    addWhole(found, path, forAll(`${self}.all(key, ${self}[key] != null)`));
  for (const [name, field] of Object.entries(properties ?? {})) {
    const of = `${self}.${name}`;
    const inner: Place = {
      self: of,
      path: `${path}.${name}`,
      forAll: (expression) => forAll(`(!has(${of}) || ${expression})`),
    };
    walk(field, inner, found, depth);
  }
  if (items === undefined) return;
  const item = `item${depth}`;
  const inner: Place = {
    self: item,
    path: `${path}[]`,
    forAll: (expression) => forAll(`${self}.all(${item}, ${expression})`),
  };
  walk(items, inner, found, depth + 1);
}

function addWhole(found: Found, path: string, expression: string): void {
  const field = path.split(/[.[]/).slice(0, 2).join('.');
  found.whole.set(field, [...(found.whole.get(field) ?? []), expression]);
}

/** Any value is allowed. */
function isOpen(schema: JsonSchema): boolean {
  return schema['x-kubernetes-preserve-unknown-fields'] === true;
}

/** The definition refuses each value (alwaysRefused). */
function isRefused(cel: readonly CelRule[] = []): boolean {
  return cel.some(({ rule }) => rule === 'false');
}
