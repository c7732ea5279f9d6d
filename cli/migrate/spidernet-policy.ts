import type { LabelSelector } from '../../apis/objects.ts';
import { asFields, asList, type FieldMap } from '../../apis/schema/json-schema.ts';
import { canonicalAddress, checkAddress } from '../../apis/validate/addresses.ts';
import { canonicalCidr, checkCidr } from '../../apis/validate/ipblock.ts';
import { type FieldPath, show } from '../../apis/validate/problem.ts';
import { checkSelector, toSelector } from '../../apis/validate/selector.ts';
import { FAMILIES } from '../../lib/net/address.ts';
import { FAMILY_FIELDS, type Pair, readPair } from './spidernet-gateway.ts';
import { presentItems } from './spidernet-schema.ts';
import type { FieldPlace, Given } from './translation.ts';

/** A policy of egressgateway, of any of its kinds. */
export interface TheirPolicy {
  readonly kind: 'EgressPolicy' | 'ClusterEgressPolicy';
  readonly given: Given;
  /** '' for a ClusterEgressPolicy. */
  readonly namespace: string;
  readonly name: string;
  /** An EgressGatewayPolicy of v1, which names no gateway. */
  readonly isFirstProposal: boolean;
  readonly gateway: string | undefined;
  /** As a manifest has it. */
  readonly appliedTo: object;
  readonly to: readonly PolicyDestination[];
  /** Node: the address of the gateway node, also where the gateway has pools. */
  readonly allocation: 'Shared' | 'Dedicated' | 'Fixed' | 'Node';
  /** The addresses that the spec names. */
  readonly fixed: Pair;
  /** Those that the policy has, by its status. */
  readonly used: Pair;
  readonly addressPath: FieldPath;
  readonly priority: number | undefined;
}

export interface PolicyDestination {
  readonly cidr: string;
  readonly family: 4 | 6;
  readonly path: FieldPath;
}

type Form = Pick<TheirPolicy, 'kind' | 'namespace' | 'name' | 'isFirstProposal'>;

/**
 * Reads a policy that passed the schema; the result counts without errors. Null: it selects
 * nothing that an object of nodewall.io can select.
 */
export function readPolicy(given: Given, spec: FieldMap, form: Form): TheirPolicy | null {
  const { found, raw } = given;
  const appliedTo = readAppliedTo(given, asFields(spec.appliedTo) ?? {}, form);
  const { egressGatewayName: gateway, priority } = spec;
  if (priority !== undefined)
    found.notice(['spec', 'priority'], 'counts in nodewall: lower goes first; egressgateway ignored it');
  const usesNode = form.isFirstProposal && spec.egressIP === undefined;
  const to = readDestinations(given, spec);
  const address = usesNode ? readFirstAddress(given, spec) : readAddress(given, spec);
  if (appliedTo === null) return null;
  return {
    ...form,
    given,
    gateway: typeof gateway === 'string' ? gateway : undefined,
    appliedTo,
    to,
    ...address,
    used: readPair(asFields(raw.status)?.eip),
    addressPath: ['spec', usesNode ? 'gatewayNodeConfig' : 'egressIP'],
    priority: typeof priority === 'number' ? priority : undefined,
  };
}

function readAppliedTo(given: Given, raw: FieldMap, { kind }: Form): object | null {
  const { found } = given;
  const path = ['spec', 'appliedTo'];
  const isCluster = kind === 'ClusterEgressPolicy';
  const podSubnets = readPodSubnets(given, raw);
  const podSelector = readSelector(raw, { found, path: [...path, 'podSelector'] });
  const namespaceSelector = readSelector(raw, { found, path: [...path, 'namespaceSelector'] });
  if (namespaceSelector !== null && !isCluster) {
    const message =
      'is a field of EgressClusterPolicy; an EgressPolicy selects pods of its own namespace, so leave it out';
    found.error([...path, 'namespaceSelector'], message);
  }
  const hasSelector = podSelector !== null || namespaceSelector !== null;
  if (podSubnets.length === 0 && !hasSelector) {
    const ways = isCluster ? 'podSelector, namespaceSelector or podSubnet' : 'podSelector or podSubnet';
    found.error(path, `selects nothing; give ${ways}`);
  }
  const at = [...path, raw.podSubnet === undefined ? 'podSelector' : 'podSubnet'];
  if (podSubnets.length > 0 && hasSelector) {
    const message =
      'subnets beside a selector have no equal, and are left out; egressgateway ignored them too, so all pods that the selector selects are steered';
    found.warning(at, message);
  } else if (podSubnets.length > 0 && !isCluster) {
    const message =
      'has no equal in an EgressPolicy, which selects pods by their labels: the policy is left out; in egressgateway it selected nothing. Write a ClusterEgressPolicy with podSubnets, or a podSelector';
    found.warning(at, message);
    return null;
  } else if (podSubnets.length > 0) {
    found.notice(at, 'counts in nodewall: pods with these addresses; egressgateway ignored it');
    return { podSubnets };
  }
  return {
    ...(podSelector === null ? {} : { podSelector }),
    ...(namespaceSelector === null ? {} : { namespaceSelector }),
  };
}

/** Null if there is none, or nothing in it but the subnets of v1. */
function readSelector(raw: FieldMap, { found, path }: FieldPlace): LabelSelector | null {
  const fields = asFields(raw[String(path.at(-1))]);
  if (fields === null) return null;
  checkSelector(fields, path, found);
  const { matchLabels = {}, matchExpressions = [], ipv4PodSubnet, ipv6PodSubnet } = fields;
  const isEmpty = Object.keys(asFields(matchLabels) ?? {}).length + asList(matchExpressions).length === 0;
  if (isEmpty && (ipv4PodSubnet ?? ipv6PodSubnet) !== undefined) return null;
  return toSelector(fields as LabelSelector);
}

/** From `podSubnet`, and from the two fields that v1 has inside podSelector. */
function readPodSubnets({ found }: Given, raw: FieldMap): string[] {
  const path = ['spec', 'appliedTo'];
  const subnets = readCidrs(raw.podSubnet, { found, path: [...path, 'podSubnet'] });
  const selector = asFields(raw.podSelector) ?? {};
  for (const family of FAMILIES) {
    const field = `ipv${family}PodSubnet`;
    const value = selector[field];
    if (value === undefined) continue;
    const at = [...path, 'podSelector', field];
    if (typeof value !== 'string' && !Array.isArray(value))
      found.error(at, `must be a CIDR or a list of CIDRs, not ${show(value)}`);
    const cidrs = readCidrs(typeof value === 'string' ? [value] : value, { found, path: at });
    if (cidrs.some((cidr) => cidr.family !== family))
      found.warning(at, `has CIDRs that are not IPv${family}; they count all the same`);
    subnets.push(...cidrs);
  }
  return [...new Set(subnets.map(({ cidr }) => cidr))];
}

/** CIDRs in canonical form; items that are none are errors. */
function readCidrs(list: unknown, { found, path }: FieldPlace): PolicyDestination[] {
  return presentItems(asList(list)).flatMap(([index, text]) => {
    const at = [...path, index];
    const parsed = checkCidr(text, at, found);
    return parsed === null ? [] : [{ cidr: canonicalCidr(text), family: parsed.family, path: at }];
  });
}

/** `destSubnet`, or `destCIDR` as it was first called; empty: every destination outside. */
function readDestinations({ found }: Given, spec: FieldMap): PolicyDestination[] {
  if (spec.destCIDR !== undefined && spec.destSubnet !== undefined)
    found.error(['spec', 'destCIDR'], 'is the earlier name of destSubnet, which is given too; leave one out');
  const field = spec.destCIDR === undefined ? 'destSubnet' : 'destCIDR';
  const all = readCidrs(spec[field], { found, path: ['spec', field] });
  return [...new Map(all.map((one) => [one.cidr, one])).values()];
}

type Address = Pick<TheirPolicy, 'allocation' | 'fixed'>;

function readAddress({ found }: Given, spec: FieldMap): Address {
  const path = ['spec', 'egressIP'];
  const { useNodeIP, allocatorPolicy = 'default', ...fields } = asFields(spec.egressIP) ?? {};
  const fixed = readFixed(fields, FAMILY_FIELDS, { found, path });
  const isFixed = Object.keys(fixed).length > 0;
  if (useNodeIP === true) {
    if (isFixed) found.error([...path, 'useNodeIP'], 'excludes ipv4 and ipv6; leave out one of the two');
    return { allocation: 'Node', fixed: {} };
  }
  if (isFixed) return { allocation: 'Fixed', fixed };
  if (allocatorPolicy === 'rr') return { allocation: 'Dedicated', fixed };
  if (allocatorPolicy !== 'default') {
    const message = `must be default or rr, not ${show(allocatorPolicy)}; it is read as default, as egressgateway does`;
    found.warning([...path, 'allocatorPolicy'], message);
  }
  return { allocation: 'Shared', fixed };
}

function readFirstAddress({ found }: Given, spec: FieldMap): Address {
  const path = ['spec', 'gatewayNodeConfig'];
  const { interface: name, ...fields } = asFields(spec.gatewayNodeConfig) ?? {};
  if (name !== undefined) {
    const message =
      'has no equal in a policy: the address is that of the route to the destination, or of the interface that spec.interface of the EgressGateway names';
    found.warning([...path, 'interface'], message);
  }
  const fixed = readFixed(fields, { 4: 'egressIPv4VIP', 6: 'egressIPv6VIP' }, { found, path });
  return { allocation: Object.keys(fixed).length > 0 ? 'Fixed' : 'Node', fixed };
}

function readFixed(
  fields: FieldMap,
  names: Readonly<Record<4 | 6, string>>,
  { found, path }: FieldPlace,
): Pair {
  const pairs = FAMILIES.flatMap((family) => {
    const text = fields[names[family]];
    if (typeof text !== 'string') return [];
    checkAddress(text, [family], [...path, names[family]], found);
    return [[family, canonicalAddress(text)] as const];
  });
  return Object.fromEntries(pairs);
}
