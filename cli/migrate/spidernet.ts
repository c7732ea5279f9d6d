import { asFields, asList, type FieldMap } from '../../apis/schema/json-schema.ts';
import { checkMetadata, readNamespace } from '../../apis/validate/metadata.ts';
import { nearest } from '../../apis/validate/nearest.ts';
import { hasError, show } from '../../apis/validate/problem.ts';
import { reportSchema } from '../../apis/validate/schema-problem.ts';
import { toPool } from '../../lib/net/address-pool.ts';
import { parsePoolRange } from '../../lib/net/interval.ts';
import { type OwnedRange, ownedRange, RangeIndex } from '../../lib/net/range-index.ts';
import { present } from '../../lib/sharing/present.ts';
import { type PlacedPolicy, placePolicies } from './spidernet-addresses.ts';
import { readGateway, type TheirGateway } from './spidernet-gateway.ts';
import { type PolicyDestination, readPolicy, type TheirPolicy } from './spidernet-policy.ts';
import {
  CLUSTER_INFO_SCHEMA,
  GATEWAY_SCHEMA,
  POLICY_SCHEMA,
  presentFields,
  presentItems,
} from './spidernet-schema.ts';
import { type Given, type SourceSystem, type Translated, toManifest } from './translation.ts';

const GROUP = 'egressgateway.spidernet.io';

/** v1beta1 as released and as of 2023; v1 as first proposed. */
const VERSIONS = [`${GROUP}/v1beta1`, `${GROUP}/v1`] as const;

/** EgressGatewayPolicy is the name that EgressPolicy had in 2023. */
const POLICY_KINDS: readonly string[] = ['EgressPolicy', 'EgressClusterPolicy', 'EgressGatewayPolicy'];
const KINDS = ['EgressGateway', ...POLICY_KINDS, 'EgressClusterInfo'];
/** Written by the controller of egressgateway, from the objects of KINDS. */
const DERIVED = ['EgressNode', 'EgressTunnel', 'EgressEndpointSlice', 'EgressClusterEndpointSlice'];

/** Labels of a Namespace with the name of the gateway of its policies; the first goes first. */
const LABELS = [
  'nodewall.io/egress-gateway',
  'spidernet.io/egressgateway-default',
  'egressgateway.spidernet.io/default',
];

/** egressgateway of spidernet-io: v1beta1 as released and as of 2023, and v1 as first proposed. */
export const SPIDERNET: SourceSystem = { name: 'spidernet', group: GROUP, translate };

function translate(own: readonly Given[], others: readonly Given[]): readonly Translated[] {
  const read = own.flatMap((given) => readObject(given) ?? []);
  const once = withoutTwins(read);
  const policies = once.filter((one): one is TheirPolicy => one.kind !== 'EgressGateway');
  const gateways = completed(
    once.filter((one): one is TheirGateway => one.kind === 'EgressGateway'),
    policies,
  );
  const find = gatewayFinder(gateways, others);
  const found = policies.map((policy) => ({ policy, ...find(policy) }));
  const names = new Set(once.map(({ kind, namespace = '', name }: Named) => `${kind} ${namespace}/${name}`));
  const free = (kind: string, namespace: string) => (name: string) => freeName(names, kind, namespace, name);
  const ofGateway = Map.groupBy(found, ({ gateway }) => gateway);
  const places = gateways.map((gateway) => {
    const its = (ofGateway.get(gateway) ?? []).map(({ policy }) => policy);
    return placePolicies(gateway, its, free('EgressGateway', ''));
  });
  const placed = new Map(places.flatMap((place) => [...place.placed]));
  warnOfInside(policies, own);
  return [
    ...places.flatMap((place) => place.gateways),
    ...found.flatMap(({ policy, name }) => {
      const place = placed.get(policy);
      const rename = free(policy.kind, policy.namespace);
      return place === undefined ? [] : toPolicies(policy, name, place, rename);
    }),
  ];
}

type Named = { readonly kind: string; readonly namespace?: string; readonly name: string };

/** Null if the object has an error, or becomes none of nodewall.io. */
function readObject(given: Given): TheirGateway | TheirPolicy | null {
  const { found, raw: written } = given;
  const kind = String(written.kind);
  if (DERIVED.includes(kind)) {
    found.notice([], 'is left out: the controller of egressgateway writes it, and nodewall needs none');
    return null;
  }
  if (!KINDS.includes(kind)) {
    const near = nearest(kind, KINDS);
    const hint = near === null ? `known in ${GROUP}: ${KINDS.join(', ')}` : `did you mean ${near}?`;
    found.error(['kind'], `unknown kind ${show(kind)}; ${hint}`);
  }
  if (!VERSIONS.some((version) => version === written.apiVersion))
    found.error(['apiVersion'], `must be ${VERSIONS.join(' or ')}, not ${show(written.apiVersion)}`);
  if (hasError(found.problems)) return null;
  const fields = asFields(written.spec);
  const spec = fields === null ? {} : presentFields(fields);
  const raw = fields === null ? written : { ...written, spec };
  if (POLICY_KINDS.includes(kind)) return readPolicyObject({ ...given, raw }, spec);
  checkMetadata(raw, found);
  const schema = kind === 'EgressGateway' ? GATEWAY_SCHEMA : CLUSTER_INFO_SCHEMA;
  reportSchema(schema, raw, found, () => null);
  if (hasError(found.problems)) return null;
  if (kind === 'EgressClusterInfo') {
    sayInside(given);
    return null;
  }
  const gateway = readGateway(given, spec);
  return hasError(found.problems) ? null : gateway;
}

function readPolicyObject(given: Given, spec: FieldMap): TheirPolicy | null {
  const { raw, found } = given;
  const isFirstProposal = raw.kind === 'EgressGatewayPolicy' && isOfV1(given);
  const hasNamespace = Boolean(asFields(raw.metadata)?.namespace);
  // One of the first proposal is cluster-scoped, unless it has a namespace.
  const isCluster = isFirstProposal ? !hasNamespace : raw.kind === 'EgressClusterPolicy';
  checkMetadata(raw, found, isCluster ? 'Cluster' : 'Namespaced');
  const name = String(asFields(raw.metadata)?.name);
  const namespace = isCluster ? '' : readNamespace(raw, found);
  reportSchema(POLICY_SCHEMA, raw, found, () => null);
  if (hasError(found.problems)) return null;
  const kind = isCluster ? 'ClusterEgressPolicy' : 'EgressPolicy';
  const policy = readPolicy(given, spec, { kind, namespace, name, isFirstProposal });
  return hasError(found.problems) ? null : policy;
}

function isOfV1({ raw }: Given): boolean {
  return raw.apiVersion === VERSIONS[1];
}

/** Objects that would become one of nodewall.io: each is an error, and none is translated. */
function withoutTwins<T extends Named & { readonly given: Given }>(read: readonly T[]): readonly T[] {
  const groups = Map.groupBy(read, ({ kind, namespace = '', name }) => `${kind} ${namespace}/${name}`);
  return [...groups.values()].flatMap((same) => {
    const [first, second] = same;
    if (first === undefined || second === undefined) return same;
    for (const { given } of same) {
      const other = (given === first.given ? second : first).given;
      given.found.error(
        [],
        `is defined twice, also in ${other.file}:${other.lineOf([])}; remove one of them`,
      );
    }
    return [];
  });
}

/**
 * The gateway of v1, which has no pools, gives the addresses that policies demand, and is the
 * default if it is the only one: policies of v1 name none.
 */
function completed(
  gateways: readonly TheirGateway[],
  policies: readonly TheirPolicy[],
): readonly TheirGateway[] {
  const [only, ...more] = gateways.filter(({ given, isDefault }) => isOfV1(given) && isDefault !== false);
  if (only === undefined || more.length > 0) return gateways;
  const demanded = policies.flatMap((one) => (one.isFirstProposal ? Object.values(one.fixed) : []));
  const texts = only.ranges.length > 0 ? [] : [...new Set(demanded)];
  const ranges = texts.length === 0 ? only.ranges : texts.flatMap((text) => parsePoolRange(text) ?? []);
  const pool = toPool(ranges.map(({ text }) => text));
  const whole: TheirGateway = { ...only, ranges, pool, isDefault: true };
  return gateways.map((gateway) => (gateway === only ? whole : gateway));
}

interface FoundGateway {
  /** Null: there is none, which is an error. */
  readonly gateway: TheirGateway | null;
  /** The name that the translated policy has to give; undefined: the default. */
  readonly name?: string;
}

function gatewayFinder(
  gateways: readonly TheirGateway[],
  others: readonly Given[],
): (policy: TheirPolicy) => FoundGateway {
  const byName = new Map(gateways.map((gateway) => [gateway.name, gateway]));
  const defaults = gateways.filter(({ isDefault }) => isDefault === true);
  const [standard = null] = defaults.length === 1 ? defaults : [];
  const labels = namespaceLabels(others);
  return ({ given, gateway: named, namespace }) => {
    const { found } = given;
    const label = labels.get(namespace);
    const name = named ?? label;
    const gateway = name === undefined ? standard : (byName.get(name) ?? null);
    const path = named === undefined ? [] : ['spec', 'egressGatewayName'];
    if (gateway === null && name !== undefined) {
      const near = nearest(name, [...byName.keys()]);
      const hint =
        near === null ? 'give its manifest too' : `did you mean ${near}? Else give its manifest too`;
      found.error(path, `there is no valid EgressGateway ${show(name)} among the manifests; ${hint}`);
    } else if (gateway === null) {
      const count = defaults.length === 0 ? 'no' : 'more than one';
      found.error(path, `names no gateway, and ${count} EgressGateway among the manifests is the default`);
    } else if (name === undefined && namespace !== '' && !labels.has(namespace)) {
      const message = `names no gateway, so it gets the default one; give Namespace ${namespace} too, in case its label ${LABELS[1]} names another`;
      found.notice([], message);
    }
    return { gateway, ...present({ name }) };
  };
}

/** The gateway that each Namespace names; undefined: none. */
function namespaceLabels(others: readonly Given[]): ReadonlyMap<string, string | undefined> {
  const named = new Map<string, string | undefined>();
  for (const { raw, found } of others) {
    if (raw.apiVersion !== 'v1' || raw.kind !== 'Namespace') continue;
    const { name, labels } = asFields(raw.metadata) ?? {};
    const own = asFields(labels) ?? {};
    const label = LABELS.find((key) => typeof own[key] === 'string' && own[key] !== '');
    named.set(String(name), label === undefined ? undefined : String(own[label]));
    if (label === undefined || label === LABELS[0]) continue;
    const message = `has no effect in nodewall; translated policies of this namespace name the gateway. For others label it ${LABELS[0]}=${own[label]}`;
    found.warning(['metadata', 'labels', label], message);
  }
  return named;
}

/** One policy; and a second one for destinations of a family of which it has no address. */
function toPolicies(
  policy: TheirPolicy,
  name: string | undefined,
  { gateway = name, address, families }: PlacedPolicy,
  rename: (name: string) => string,
): Translated[] {
  const { kind, namespace, given, appliedTo, to, priority } = policy;
  const toObject = (own: string, fields: object): Translated => {
    const spec = { appliedTo: [appliedTo], ...fields, ...present({ priority }) };
    return { manifest: toManifest(kind, own, namespace, spec), from: given };
  };
  const isServed = ({ family }: PolicyDestination): boolean => families === null || families.includes(family);
  const served = to.filter(isServed);
  const unserved = to.filter((one) => !isServed(one));
  const list = (some: readonly PolicyDestination[]) =>
    some.length === 0 ? {} : { to: some.map(({ cidr }) => cidr) };
  const own = toObject(policy.name, {
    ...present({ gateway }),
    ...list(served),
    ...present({ address }),
  });
  if (unserved.length === 0) return [own];
  const [{ family } = { family: 6 }] = unserved;
  const dropper = served.length === 0 ? policy.name : rename(`${policy.name}-ipv${family}`);
  for (const { path, cidr } of unserved) {
    const message = `${cidr} is IPv${family}, and the policy has no IPv${family} address: ${kind} ${dropper} drops what is sent there`;
    given.found.warning(path, message);
  }
  const drops = toObject(dropper, { ...list(unserved), action: 'Drop' });
  return served.length === 0 ? [drops] : [own, drops];
}

/** A name that no object of the kind has; it is taken from now on. */
function freeName(names: Set<string>, kind: string, namespace: string, wanted: string): string {
  const base = wanted.slice(0, 240);
  let name = base;
  for (let number = 2; names.has(`${kind} ${namespace}/${name}`); number++) name = `${base}-${number}`;
  names.add(`${kind} ${namespace}/${name}`);
  return name;
}

/** The networks of an EgressClusterInfo, by the field of the configuration that has them. */
function insideOf({ raw }: Given): ReadonlyMap<string, readonly string[]> {
  const status = asFields(raw.status) ?? {};
  // In 2023.
  const earlier = asFields(status.egressIgnoreCIDR) ?? {};
  const of = (field: string): string[] => [...networks(status[field], 0), ...networks(earlier[field], 0)];
  const added = networks(asFields(raw.spec)?.extraCidr, 0);
  return new Map(
    Object.entries({
      inside: [...new Set([...added, ...of('extraCidr')])],
      serviceCIDRs: of('clusterIP'),
      podCIDRs: of('podCIDR'),
      nodes: of('nodeIP'),
    }),
  );
}

/** A list, or lists by family, or by node or pool and by family. */
function networks(value: unknown, depth: number): string[] {
  if (Array.isArray(value))
    return presentItems(value).flatMap(([, text]) => (ownedRange(text, '').length === 0 ? [] : [text]));
  if (depth === 2) return [];
  return Object.values(asFields(value) ?? {}).flatMap((item) => networks(item, depth + 1));
}

/** Names the part of the configuration that has the networks of an EgressClusterInfo. */
function sayInside(given: Given): void {
  for (const [index, text] of presentItems(asList(asFields(given.raw.spec)?.extraCidr))) {
    if (ownedRange(text, '').length > 0) continue;
    given.found.warning(
      ['spec', 'extraCidr', index],
      `${show(text)} is not an address or a CIDR; it is left out`,
    );
  }
  const fields = [...insideOf(given)].filter(([field, list]) => field !== 'nodes' && list.length > 0);
  const text = fields.map(([field, list]) => `${field}: [${list.map(toCidr).join(', ')}]`).join(', ');
  const message =
    'has no equal among objects: networks inside the cluster are in the configuration of controllers and agents';
  given.found.warning([], text === '' ? message : `${message}: egress: {${text}}`);
}

function toCidr(text: string): string {
  return text.includes('/') ? text : `${text}/${text.includes(':') ? 128 : 32}`;
}

/** egressgateway steers connections to destinations inside the cluster; nodewall never does. */
function warnOfInside(policies: readonly TheirPolicy[], own: readonly Given[]): void {
  const infos = own.filter(({ raw, found }) => raw.kind === 'EgressClusterInfo' && !hasError(found.problems));
  const ranges = infos.flatMap((given): OwnedRange[] =>
    [...insideOf(given).values()].flat().flatMap((text) => ownedRange(text, text)),
  );
  if (ranges.length === 0) return;
  const index = new RangeIndex(ranges);
  for (const { given, to } of policies) {
    for (const { cidr, path } of to) {
      const [one] = ownedRange(cidr, '');
      const other = one === undefined ? undefined : index.overlapping(one.family, one.range);
      if (other === undefined) continue;
      const message = `${cidr} overlaps ${other.owner} of EgressClusterInfo: nothing inside the cluster is steered here, but egressgateway did it`;
      given.found.warning(path, message);
    }
  }
}
