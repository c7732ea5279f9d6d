import { checkSchema, type JsonSchema, type SchemaProblem } from '../schema/json-schema.ts';
import { POD_TARGETS } from './applied-to.ts';
import { suggestion } from './nearest.ts';
import { type FieldPath, type Findings, show } from './problem.ts';

/** The message for an unknown field that users plausibly write; null: no special message. */
type FieldHint = (path: FieldPath) => string | null;

/** Reports every violation of the schema as a human-readable message. */
export function reportSchema(
  schema: JsonSchema,
  value: unknown,
  found: Findings,
  hint: FieldHint = fieldHint,
): void {
  for (const problem of checkSchema(schema, value, (problem) => !isAsIfAbsent(problem))) {
    found.error(problem.path, describe(problem, hint));
  }
}

/** Ingress rules have no field toServices, but an empty list counts as absent. */
function isAsIfAbsent({ keyword, path, value }: SchemaProblem): boolean {
  const isEmpty = Array.isArray(value) && value.length === 0;
  return keyword === 'unknown' && isEmpty && path[1] === 'ingress' && path.at(-1) === 'toServices';
}

function describe({ keyword, path, schema, value }: SchemaProblem, hint: FieldHint): string {
  switch (keyword) {
    case 'required':
      return `is missing; it must be ${describeType(schema)}`;
    case 'unknown':
      return describeUnknown(path, schema, hint);
    case 'type':
      return `must be ${describeType(schema)}, not ${show(value)}${typeHint(path, schema, value)}`;
    case 'range':
      return `must be ${describeType(schema)}, not ${show(value)}`;
    case 'enum': {
      const near = typeof value === 'string' ? suggestion(value, schema.enum ?? []) : '';
      return `must be ${describeType(schema)}, not ${show(value)}${near}`;
    }
    case 'maxLength':
      return `has more than ${schema.maxLength} characters`;
    case 'pattern':
      return `${show(value)} has characters that are not allowed here${patternHint(path)}`;
  }
}

function describeUnknown(path: FieldPath, schema: JsonSchema, hint: FieldHint): string {
  const special = hint(path);
  if (special !== null) return special;
  const fields = Object.keys(schema.properties ?? {});
  const near = suggestion(String(path.at(-1)), fields);
  return `unknown field${near === '' ? `; known here: ${fields.join(', ')}` : near}`;
}

function describeType({ type, minimum, maximum, ...schema }: JsonSchema): string {
  const range = minimum === undefined ? '' : ` from ${minimum} to ${maximum}`;
  switch (type) {
    case 'object':
      return 'an object with fields';
    case 'array':
      return 'a list';
    case 'integer':
      return `a whole number${range}`;
    case 'number':
      return `a number${range}`;
    case 'boolean':
      return 'true or false';
    case 'string':
      return schema.enum === undefined ? 'text' : oneOf(schema.enum);
    case undefined:
      return asWords(schema.description ?? 'a whole number or text');
    default:
      return type satisfies never;
  }
}

/** Turns a schema description into a part of a sentence. */
function asWords(description: string): string {
  return description.replace(/^The /, 'the ').replace(/\.$/, '');
}

function patternHint(path: FieldPath): string {
  if (path.at(-1) !== 'logLabel') return '';
  return ': letters, digits, "-", "_" and ".", starting and ending with a letter or digit';
}

function oneOf(words: readonly string[]): string {
  return words.length === 1 ? `${words[0]}` : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
}

function typeHint(path: FieldPath, { type }: JsonSchema, value: unknown): string {
  if (value === null && typeof path.at(-1) === 'number') return '; remove the item or write it out';
  if (value === null) {
    const empty = { array: '[]', object: '{}', string: '""' }[String(type)];
    return empty === undefined ? '; leave the field out' : `; write ${empty} or leave the field out`;
  }
  if (type === 'integer' && typeof value === 'string') {
    if (/^\d+$/.test(value)) return '; remove the quotes';
    const isPort = ['port', 'sourcePort', 'endPort', 'sourceEndPort'].includes(String(path.at(-1)));
    return isPort ? '; named ports are not supported for Nodes' : '';
  }
  if (type === 'string' && (typeof value === 'number' || typeof value === 'boolean'))
    return '; put it in quotes';
  if (type === 'array') return '; put "- " before each item';
  return '';
}

/**
 * The message for an unknown field that users plausibly write at this path; null: no special
 * message.
 */
function fieldHint(path: FieldPath): string | null {
  const field = String(path.at(-1));
  const around = String(path.at(-2));
  const list = String(path.at(-3));
  if (list === 'appliedTo') return appliedToHint(field);
  if (list === 'ingress') {
    if (field === 'to') return 'is a field of egress rules; an ingress rule has "from"';
    if (field === 'toServices') return 'is only allowed in egress rules';
  }
  if (list === 'egress' && field === 'from') return 'is a field of ingress rules; an egress rule has "to"';
  if (field === '<<') return 'merge keys can only add fields that are known here';
  if (field === 'spec' && around === 'spec') return 'unknown field; does "spec" appear twice?';
  return null;
}

function appliedToHint(field: string): string | null {
  if (field === 'externalEntitySelector') return 'is not supported for Nodes';
  if (field === 'nodeName' || field === 'nodes')
    return 'unknown field; Nodes are selected by label, with nodeSelector';
  if (!(POD_TARGETS as readonly string[]).includes(field)) return null;
  return 'is not allowed here: nodewall applies policies to Nodes only; use nodeSelector';
}

/** Fields of other projects' egress objects, and what stands for them here. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  ippools: 'write addresses: {pools: [{ranges: […]}]}',
  clusterDefault: 'write default: true',
  egressGatewayName: 'write gateway: NAME',
  egressgateway: 'write gateway: NAME',
  destSubnet: 'write to: […]',
  destinationCIDRs: 'write to: […]',
  excludedCIDRs: 'write except: […]',
  egressIP: 'write address: {allocation: Fixed, ipv4: …}',
  egressIPs: 'write address: {allocation: Fixed, ipv4: …, ipv6: …}',
};

const APPLIED_TO: readonly string[] = ['podSelector', 'namespaceSelector', 'podSubnets'];

/** The message for an unknown field of an egress object; null: no special message. */
export function egressFieldHint(path: FieldPath): string | null {
  const field = String(path.at(-1));
  const isInSpec = path.length === 2 && path[0] === 'spec';
  if (isInSpec && Object.hasOwn(ELSEWHERE, field)) return `unknown field; ${ELSEWHERE[field]}`;
  if (isInSpec && field === 'podSubnet') {
    return 'unknown field; write appliedTo: [{podSubnets: […]}] in a ClusterEgressPolicy';
  }
  if (isInSpec && APPLIED_TO.includes(field)) return `unknown field; write appliedTo: [{${field}: …}]`;
  if (isInSpec && field === 'spec') return 'unknown field; does "spec" appear twice?';
  return null;
}
