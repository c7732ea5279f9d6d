import { type Cidr, FAMILIES, type Family, parseCidr } from '../../../lib/net/address.ts';
import { type Interval, subtract, toInterval, union } from '../../../lib/net/interval.ts';
import { present } from '../../../lib/sharing/present.ts';
import type { EgressAddress, EgressAppliedTo, EgressPolicy, EgressPolicySpec } from '../../egress/objects.ts';
import type { LabelSelector } from '../../label-selector.ts';
import { CLUSTER_EGRESS_POLICY_SCHEMA, EGRESS_POLICY_SCHEMA } from '../../schema/egress-policy.ts';
import { asFields, asList, type FieldMap } from '../../schema/json-schema.ts';
import { canonicalAddress, checkAddress } from '../addresses.ts';
import { canonicalCidr, checkCidrs } from '../ipblock.ts';
import { checkMetadata, readNamespace, toCreated, toIdentity } from '../metadata.ts';
import { isSubdomain, SUBDOMAIN_FORM } from '../names.ts';
import { type FieldPath, type Findings, hasError, show } from '../problem.ts';
import { egressFieldHint, reportSchema } from '../schema-problem.ts';
import { checkSelector, toSelector } from '../selector.ts';
import { readPolicyStatus } from './status.ts';

/** The fields of a spec that passed the checks. */
interface RawSpec {
  readonly stage?: 'Override' | 'Default';
  readonly appliedTo: readonly {
    readonly podSelector?: LabelSelector;
    readonly namespaceSelector?: LabelSelector;
    readonly podSubnets?: readonly string[];
  }[];
  readonly gateway?: string;
  readonly to?: readonly string[];
  readonly except?: readonly string[];
  readonly action?: EgressPolicySpec['action'];
  readonly address?: RawAddress;
  readonly whenUnavailable?: EgressPolicySpec['whenUnavailable'];
  readonly priority?: number;
  readonly mode?: EgressPolicySpec['mode'];
  readonly established?: 'Keep' | 'Recheck';
}

interface RawAddress {
  readonly allocation?: EgressAddress['allocation'];
  readonly ipv4?: string;
  readonly ipv6?: string;
  readonly count?: number;
}

/** The priority of policies that have none. */
const DEFAULT_PRIORITY = 1000;

/** Null if the policy has an error. */
export function validateEgressPolicy(
  raw: FieldMap,
  kind: EgressPolicy['kind'],
  found: Findings,
): EgressPolicy | null {
  const isCluster = kind === 'ClusterEgressPolicy';
  checkMetadata(raw, found, isCluster ? 'Cluster' : 'Namespaced');
  const namespace = isCluster ? '' : readNamespace(raw, found);
  const schema = isCluster ? CLUSTER_EGRESS_POLICY_SCHEMA : EGRESS_POLICY_SCHEMA;
  const { status: written, ...object } = raw;
  reportSchema(schema, object, found, egressFieldHint);
  const spec = asFields(raw.spec);
  if (spec !== null) checkSpec(spec, isCluster, found);
  const status = readPolicyStatus(written, found);
  if (hasError(found.problems)) return null;
  return {
    kind,
    apiGroup: 'nodewall.io',
    namespace,
    ...toIdentity(raw),
    ...toCreated(raw),
    // The checks above guarantee the type.
    spec: toSpec(raw.spec as unknown as RawSpec, isCluster),
    status,
  };
}

function checkSpec(spec: FieldMap, isCluster: boolean, found: Findings): void {
  const { appliedTo, gateway } = spec;
  if (!isCluster && spec.stage !== undefined) {
    const message =
      'is only allowed in a ClusterEgressPolicy; EgressPolicies come after those of stage Override and before those of stage Default';
    found.error(['spec', 'stage'], message);
  }
  if (Array.isArray(appliedTo) && appliedTo.length === 0) {
    found.error(['spec', 'appliedTo'], `is empty; select the pods ([{podSelector: {}}] selects all)`);
  }
  for (const [index, item] of asList(appliedTo).entries()) {
    const fields = asFields(item);
    if (fields !== null) checkAppliedTo(fields, isCluster, ['spec', 'appliedTo', index], found);
  }
  if (typeof gateway === 'string' && !isSubdomain(gateway)) {
    const message = `${show(gateway)} is not a valid name of an EgressGateway: ${SUBDOMAIN_FORM}; leave the field out for the default gateway`;
    found.error(['spec', 'gateway'], message);
  }
  checkDestinations(spec, found);
  if (spec.address !== undefined) checkAllocation(asFields(spec.address) ?? {}, found);
  const { action } = spec;
  if (action !== 'Direct' && action !== 'Drop') return;
  for (const field of ['gateway', 'address']) {
    if (spec[field] !== undefined) found.warning(['spec', field], `has no effect with action: ${action}`);
  }
}

function checkAppliedTo(item: FieldMap, isCluster: boolean, path: FieldPath, found: Findings): void {
  const { podSelector, namespaceSelector, podSubnets } = item;
  checkSelector(podSelector, [...path, 'podSelector'], found);
  checkSelector(namespaceSelector, [...path, 'namespaceSelector'], found);
  checkCidrs(podSubnets, [...path, 'podSubnets'], found);
  if (!isCluster) {
    for (const field of ['namespaceSelector', 'podSubnets']) {
      if (!(field in item)) continue;
      const message =
        'is only allowed in a ClusterEgressPolicy; an EgressPolicy selects pods of its own namespace, with podSelector';
      found.error([...path, field], message);
    }
  }
  const hasSelector = 'podSelector' in item || 'namespaceSelector' in item;
  if (Object.keys(item).length === 0) {
    const example = isCluster
      ? '{podSelector: {}} selects all pods'
      : '{podSelector: {}} selects all pods of the namespace';
    found.error(path, `is empty; ${example}`);
  } else if (isCluster && hasSelector && 'podSubnets' in item) {
    const message = 'has selectors and podSubnets in one item; write one item for each (items are OR-ed)';
    found.error(path, message);
  }
  if (Array.isArray(podSubnets) && podSubnets.length === 0) {
    found.error([...path, 'podSubnets'], 'is empty; give at least one CIDR, or leave the item out');
  }
}

function checkAllocation(address: FieldMap, found: Findings): void {
  const { allocation = 'Shared', count } = address;
  for (const [field, family] of [
    ['ipv4', 4],
    ['ipv6', 6],
  ] as const) {
    const path = ['spec', 'address', field];
    const text = address[field];
    if (typeof text === 'string') checkAddress(text, [family], path, found);
    if (text !== undefined && allocation !== 'Fixed') {
      found.error(path, `is only allowed with allocation: Fixed, not ${show(allocation)}`);
    }
  }
  if (allocation === 'Fixed' && address.ipv4 === undefined && address.ipv6 === undefined) {
    found.error(['spec', 'address'], 'allocation Fixed needs ipv4, ipv6 or both');
  }
  if (typeof count === 'number' && count !== 1 && allocation !== 'Dedicated') {
    const message = `${count} is only allowed with allocation: Dedicated, not ${show(allocation)}`;
    found.error(['spec', 'address', 'count'], message);
  }
}

function toSpec(spec: RawSpec, isCluster: boolean): EgressPolicySpec {
  const { to = [], address = {} } = spec;
  return {
    stage: isCluster ? (spec.stage ?? 'Default') : 'Namespace',
    appliedTo: spec.appliedTo.map(toAppliedTo),
    ...present({ gateway: spec.gateway }),
    ...(to.length === 0 ? {} : { to: to.map(canonicalCidr) }),
    except: (spec.except ?? []).map(canonicalCidr),
    action: spec.action ?? 'Gateway',
    address: {
      allocation: address.allocation ?? 'Shared',
      fixed: {
        ...(address.ipv4 === undefined ? {} : { ipv4: canonicalAddress(address.ipv4) }),
        ...(address.ipv6 === undefined ? {} : { ipv6: canonicalAddress(address.ipv6) }),
      },
      count: address.count ?? 1,
    },
    whenUnavailable: spec.whenUnavailable ?? 'Drop',
    priority: spec.priority ?? DEFAULT_PRIORITY,
    mode: spec.mode ?? 'Enforce',
    ...(spec.established === 'Recheck' ? { established: spec.established } : {}),
  };
}

function toAppliedTo(item: RawSpec['appliedTo'][number]): EgressAppliedTo {
  const { podSelector, namespaceSelector, podSubnets } = item;
  return {
    ...(podSelector === undefined ? {} : { podSelector: toSelector(podSelector) }),
    ...(namespaceSelector === undefined ? {} : { namespaceSelector: toSelector(namespaceSelector) }),
    ...(podSubnets === undefined ? {} : { podSubnets: podSubnets.map(canonicalCidr) }),
  };
}

/** Checks `to` and `except` of a policy: their form, and whether they leave anything. */
function checkDestinations({ to, except }: FieldMap, found: Findings): void {
  checkCidrs(to, ['spec', 'to'], found);
  checkCidrs(except, ['spec', 'except'], found);
  const inside = cidrsOf(to);
  const holes = cidrsOf(except);
  if (inside.length === 0 || holes.length === 0) return;
  const left = FAMILIES.flatMap((family) => subtract(rangesOf(inside, family), rangesOf(holes, family)));
  if (left.length === 0) {
    found.warning(['spec', 'except'], 'covers all of "to"; this policy matches no destination');
  }
}

function cidrsOf(list: unknown): Cidr[] {
  return asList(list).flatMap((text) => (typeof text === 'string' ? (parseCidr(text)?.cidr ?? []) : []));
}

/** The addresses of a family, as a union. */
function rangesOf(cidrs: readonly Cidr[], family: Family): Interval[] {
  return union(cidrs.filter((cidr) => cidr.family === family).map(toInterval));
}
