import { parseCidr } from '../../../lib/net/address.ts';
import type { LabelSelector } from '../../objects.ts';
import { asFields, asList, type FieldMap } from '../../schema/json-schema.ts';
import { canonicalAddress, checkAddress } from '../../validate/egress/addresses.ts';
import { DEFAULT_PRIORITY } from '../../validate/egress/policy.ts';
import { type FieldPath, type Findings, show } from '../../validate/problem.ts';
import { checkSelector, toSelector } from '../../validate/selector.ts';
import type { AddressPair, EgressAddress, EgressAppliedTo, EgressPolicySpec } from '../objects.ts';
import { toCidrList } from './cidr-list.ts';

export interface PolicyForm {
  readonly isCluster: boolean;
  /** An EgressGatewayPolicy of v1, which has no pools: it uses the node's address. */
  readonly isFirstProposal: boolean;
}

/** Converts the spec of a policy that passed the schema; the result counts without errors. */
export function toPolicySpec(spec: FieldMap, form: PolicyForm, found: Findings): EgressPolicySpec {
  const appliedTo = toAppliedTo(asFields(spec.appliedTo) ?? {}, form, found);
  const to = toDestinations(spec, found);
  const { egressGatewayName: gateway, priority } = spec;
  const usesNode = form.isFirstProposal && spec.egressIP === undefined;
  if (priority !== undefined) {
    found.notice(['spec', 'priority'], 'counts here: lower goes first; egressgateway ignored it');
  }
  return {
    stage: form.isCluster ? 'Default' : 'Namespace',
    appliedTo: [appliedTo],
    ...(typeof gateway === 'string' ? { gateway } : {}),
    ...(to.length === 0 ? {} : { to }),
    except: [],
    action: 'Gateway',
    address: usesNode ? toFirstAddress(spec, found) : toEgressAddress(spec, found),
    whenUnavailable: 'Drop',
    priority: typeof priority === 'number' ? priority : DEFAULT_PRIORITY,
    mode: 'Enforce',
  };
}

function toAppliedTo(raw: FieldMap, { isCluster }: PolicyForm, found: Findings): EgressAppliedTo {
  const path = ['spec', 'appliedTo'];
  const podSubnets = toPodSubnets(raw, found);
  const podSelector = selectorAt(raw, [...path, 'podSelector'], found);
  const namespaceSelector = selectorAt(raw, [...path, 'namespaceSelector'], found);
  if (namespaceSelector !== null && !isCluster) {
    const message =
      'is a field of EgressClusterPolicy; an EgressPolicy selects pods of its own namespace, so leave it out';
    found.error([...path, 'namespaceSelector'], message);
  }
  if (podSubnets.length > 0) {
    const whose = isCluster ? '' : ' of its namespace';
    const both = podSelector === null ? '' : ' that podSelector selects';
    const message = `the subnets count here: pods${whose}${both} with these addresses; egressgateway ignored them`;
    found.notice([...path, raw.podSubnet === undefined ? 'podSelector' : 'podSubnet'], message);
  } else if (podSelector === null && namespaceSelector === null) {
    const ways = isCluster ? 'podSelector, namespaceSelector or podSubnet' : 'podSelector or podSubnet';
    found.error(path, `selects nothing; give ${ways}`);
  }
  return {
    ...(podSelector === null ? {} : { podSelector }),
    ...(namespaceSelector === null ? {} : { namespaceSelector }),
    ...(podSubnets.length === 0 ? {} : { podSubnets }),
  };
}

/** Null if there is none, or nothing in it but the subnets of v1. */
function selectorAt(raw: FieldMap, path: FieldPath, found: Findings): LabelSelector | null {
  const fields = asFields(raw[String(path.at(-1))]);
  if (fields === null) return null;
  checkSelector(fields, path, found);
  const { ipv4PodSubnet, ipv6PodSubnet } = fields;
  const selector = toSelector(fields as LabelSelector);
  const isOnlySubnets = (ipv4PodSubnet ?? ipv6PodSubnet) !== undefined && isEmpty(selector);
  return isOnlySubnets ? null : selector;
}

function isEmpty({ matchLabels = {}, matchExpressions = [] }: LabelSelector): boolean {
  return Object.keys(matchLabels).length === 0 && matchExpressions.length === 0;
}

/** From `podSubnet`, and from the two fields that v1 has inside podSelector. */
function toPodSubnets(raw: FieldMap, found: Findings): string[] {
  const path = ['spec', 'appliedTo'];
  const subnets = toCidrList(asList(raw.podSubnet), [...path, 'podSubnet'], found);
  const selector = asFields(raw.podSelector) ?? {};
  for (const [field, family] of [
    ['ipv4PodSubnet', 4],
    ['ipv6PodSubnet', 6],
  ] as const) {
    const value = selector[field];
    if (value === undefined) continue;
    const at = [...path, 'podSelector', field];
    if (typeof value !== 'string' && !Array.isArray(value)) {
      found.error(at, `must be a CIDR or a list of CIDRs, not ${show(value)}`);
      continue;
    }
    const cidrs = toCidrList(typeof value === 'string' ? [value] : value, at, found);
    if (cidrs.some((cidr) => parseCidr(cidr)?.cidr.family !== family)) {
      found.warning(at, `has CIDRs that are not IPv${family}; they count all the same`);
    }
    subnets.push(...cidrs);
  }
  return [...new Set(subnets)];
}

/** `destSubnet`, or `destCIDR` as it was first called; empty: every destination outside. */
function toDestinations(spec: FieldMap, found: Findings): string[] {
  if (spec.destCIDR !== undefined && spec.destSubnet !== undefined) {
    found.error(['spec', 'destCIDR'], 'is the earlier name of destSubnet, which is given too; leave one out');
  }
  const field = spec.destCIDR === undefined ? 'destSubnet' : 'destCIDR';
  return toCidrList(asList(spec[field]), ['spec', field], found);
}

function toEgressAddress(spec: FieldMap, found: Findings): EgressAddress {
  const path = ['spec', 'egressIP'];
  const { ipv4, ipv6, useNodeIP, allocatorPolicy = 'default' } = asFields(spec.egressIP) ?? {};
  const fixed = toFixed({ ipv4, ipv6 }, (family) => [...path, family], found);
  const isFixed = Object.keys(fixed).length > 0;
  if (useNodeIP === true) {
    if (isFixed) found.error([...path, 'useNodeIP'], 'excludes ipv4 and ipv6; leave out one of the two');
    return { allocation: 'Node', fixed: {}, count: 1 };
  }
  if (isFixed) return { allocation: 'Fixed', fixed, count: 1 };
  if (allocatorPolicy === 'rr') return { allocation: 'Dedicated', fixed: {}, count: 1 };
  if (allocatorPolicy !== 'default') {
    const message = `must be default or rr, not ${show(allocatorPolicy)}; it is read as default, as egressgateway does`;
    found.warning([...path, 'allocatorPolicy'], message);
  }
  return { allocation: 'Shared', fixed: {}, count: 1 };
}

function toFirstAddress(spec: FieldMap, found: Findings): EgressAddress {
  const path = ['spec', 'gatewayNodeConfig'];
  const {
    egressIPv4VIP: ipv4,
    egressIPv6VIP: ipv6,
    interface: name,
  } = asFields(spec.gatewayNodeConfig) ?? {};
  if (name !== undefined) {
    const message =
      'is not read: the address is that of the route to the destination; ' +
      'another is given by spec.interface of an EgressGateway of nodewall.io';
    found.warning([...path, 'interface'], message);
  }
  const at = (family: 'ipv4' | 'ipv6') => [...path, family === 'ipv4' ? 'egressIPv4VIP' : 'egressIPv6VIP'];
  const fixed = toFixed({ ipv4, ipv6 }, at, found);
  const isFixed = Object.keys(fixed).length > 0;
  return { allocation: isFixed ? 'Fixed' : 'Node', fixed, count: 1 };
}

function toFixed(
  texts: { readonly ipv4: unknown; readonly ipv6: unknown },
  pathOf: (family: 'ipv4' | 'ipv6') => FieldPath,
  found: Findings,
): AddressPair {
  const pairs = (['ipv4', 'ipv6'] as const).flatMap((field) => {
    const text = texts[field];
    if (typeof text !== 'string') return [];
    checkAddress(text, [field === 'ipv4' ? 4 : 6], pathOf(field), found);
    return [[field, canonicalAddress(text)] as const];
  });
  return Object.fromEntries(pairs);
}
