import type { AddressPair, EgressGateway, EgressPolicy } from '../../../apis/egress/objects.ts';
import type { Namespace } from '../../../apis/objects.ts';
import { POLICY_PATHS } from '../../../apis/validate/egress/kinds.ts';
import { displayName } from '../../../apis/validate/metadata.ts';
import { describeUnknown, sortedNames } from '../../../apis/validate/nearest.ts';
import { type CrossProblem, type FieldPath, show } from '../../../apis/validate/problem.ts';
import { parseCidr } from '../../../lib/net/address.ts';
import { toInterval } from '../../../lib/net/interval.ts';
import { AddressUnion, ownedRange } from '../../../lib/net/range-index.ts';
import { memo } from '../../../lib/sharing/memo.ts';
import { gatewayChooser } from '../ways.ts';
import { nameOf, type PoolOf } from './gateways.ts';

interface PolicyWorld {
  readonly policies: readonly EgressPolicy[];
  readonly gateways: readonly EgressGateway[];
  readonly namespaces: readonly Namespace[];
  readonly pools: readonly PoolOf[];
  /** Destinations that are never steered. */
  readonly inside: Pick<AddressUnion, 'covers'>;
  /** Identities of gateways that exist and were rejected. */
  readonly invalid: ReadonlySet<string>;
}

type Report = (path: FieldPath, message: string, severity?: 'error' | 'warning' | 'missing') => void;

/**
 * Finds what keeps policies from having their gateway, address or destinations.
 *
 * @param of whose problems are wanted; absent: those of all
 */
export function policyProblems(
  world: PolicyWorld,
  of: readonly EgressPolicy[] = world.policies,
): CrossProblem<EgressPolicy>[] {
  const find = gatewayFinder(world);
  const takers = takersOf(world.policies);
  const pools = Map.groupBy(world.pools, ({ gateway }) => gateway);
  const poolOf = memo((gateway: EgressGateway) => new AddressUnion(pools.get(gateway) ?? []));
  return of.flatMap((policy) => {
    const found: CrossProblem<EgressPolicy>[] = [];
    const report: Report = (path, message, severity = 'error') => {
      const problem =
        severity === 'missing'
          ? ({ severity: 'error', path, message, isMissing: true } as const)
          : { severity, path, message };
      found.push({ object: policy, problem });
    };
    checkInside(policy, world, report);
    if (policy.spec.action !== 'Gateway') return found;
    const gateway = find(policy, report);
    if (gateway === null) return found;
    const pool = gateway.spec.source === 'Node' ? null : poolOf(gateway);
    checkAddress(policy, gateway, { pool, takers }, report);
    checkFamilies(policy, gateway, pool, report);
    return found;
  });
}

/** The gateway of a policy; null, with a problem, if there is none that it may use. */
function gatewayFinder({ gateways, namespaces, invalid }: PolicyWorld) {
  const choose = gatewayChooser(gateways);
  const namespaceOf = new Map(namespaces.map((namespace) => [namespace.name, namespace]));
  const known = sortedNames(gateways);
  const hasDefault = gateways.some(({ spec }) => spec.default);
  const invalidNames = new Set([...invalid].map((identity) => identity.split('|').at(-1)));
  const unknown = (name: string): string =>
    invalidNames.has(name)
      ? `EgressGateway ${show(name)} is itself invalid; correct it first`
      : describeUnknown('EgressGateway', name, { known });
  return (policy: EgressPolicy, report: Report): EgressGateway | null => {
    const namespace = namespaceOf.get(policy.namespace);
    const { gateway, isAllowed, name, label } = choose(policy, namespace?.labels ?? {});
    if (gateway !== null && isAllowed) return gateway;
    // Two defaults: reported for the gateways.
    if (gateway === null && name === null && hasDefault) return null;
    const by = label === null ? '' : `label ${label} of Namespace ${policy.namespace}: `;
    const reason =
      gateway !== null
        ? `${nameOf(gateway)} ${refusal(gateway, policy, namespace)}`
        : name === null
          ? 'names no gateway, and no EgressGateway is the default'
          : `${by}${unknown(name)}`;
    const path = policy.spec.gateway === undefined ? [] : POLICY_PATHS.gateway;
    const exists = gateway !== null || (name !== null && invalidNames.has(name));
    report(path, withEffect(reason, policy), exists ? 'error' : 'missing');
    return null;
  };
}

function refusal({ spec }: EgressGateway, policy: EgressPolicy, namespace: Namespace | undefined): string {
  if (spec.allowedNamespaces === null) return 'admits no namespace (it has no allowedNamespaces)';
  return namespace === undefined
    ? `admits namespaces by their labels, and there is no Namespace ${policy.namespace}`
    : `does not admit namespace ${policy.namespace}: its allowedNamespaces do not select it`;
}

/** The reason may end with a suggestion as a question. */
function withEffect(reason: string, policy: EgressPolicy): string {
  const effect = unavailable(policy);
  if (!reason.endsWith('?')) return `${reason}; ${effect}`;
  return `${reason} ${effect.charAt(0).toUpperCase()}${effect.slice(1)}`;
}

/** The fate of the connections meanwhile. */
function unavailable({ spec }: EgressPolicy): string {
  if (spec.mode === 'Audit') return 'nothing is steered by it';
  const effect = spec.whenUnavailable === 'Drop' ? 'dropped' : 'not steered (whenUnavailable: Direct)';
  return `until then what it matches is ${effect}`;
}

/** The policies that have an address: by their spec (Fixed), or by their status. */
function takersOf(policies: readonly EgressPolicy[]): ReadonlyMap<string, readonly EgressPolicy[]> {
  const takers = new Map<string, EgressPolicy[]>();
  for (const policy of policies) {
    if (policy.spec.action !== 'Gateway') continue;
    const { allocation, fixed } = policy.spec.address;
    const own = allocation === 'Fixed' ? Object.values(fixed) : (policy.status?.addresses ?? []);
    for (const address of new Set(own)) {
      const list = takers.get(address);
      if (list === undefined) takers.set(address, [policy]);
      else list.push(policy);
    }
  }
  return takers;
}

interface Addresses {
  /** The pools of the gateway; null: it has source Node. */
  readonly pool: AddressUnion | null;
  readonly takers: ReadonlyMap<string, readonly EgressPolicy[]>;
}

function checkAddress(
  policy: EgressPolicy,
  gateway: EgressGateway,
  { pool, takers }: Addresses,
  report: Report,
): void {
  const { allocation, fixed } = policy.spec.address;
  const { address: path } = POLICY_PATHS;
  if (pool === null) {
    if (allocation !== 'Fixed' && allocation !== 'Dedicated') return;
    const message = `${nameOf(gateway)} has source Node: it has no addresses for allocation ${allocation}`;
    report(path, `${message}; ${unavailable(policy)}`);
    return;
  }
  if (allocation !== 'Fixed') return;
  for (const family of ['ipv4', 'ipv6'] as const satisfies readonly (keyof AddressPair)[]) {
    const text = fixed[family];
    const [address] = text === undefined ? [] : ownedRange(text, '');
    if (text === undefined || address === undefined) continue;
    const at = [...path, family];
    if (!pool.covers(address.family, address.range)) {
      report(at, `${text} is not in the pools of ${nameOf(gateway)}; ${unavailable(policy)}`);
      continue;
    }
    const other = takers.get(text)?.find((taker) => taker !== policy);
    if (other === undefined) continue;
    const taker = `${other.kind} ${displayName(other)}`;
    report(at, `${text} is taken by ${taker}; an address belongs to one policy`);
  }
}

/** A destination of a family of which the policy can have no address is never reached. */
function checkFamilies(
  policy: EgressPolicy,
  gateway: EgressGateway,
  pool: AddressUnion | null,
  report: Report,
): void {
  const { to = [], address, whenUnavailable } = policy.spec;
  if (pool === null || whenUnavailable === 'Direct') return;
  const isFixed = address.allocation === 'Fixed';
  const fixed = { 4: address.fixed.ipv4, 6: address.fixed.ipv6 };
  for (const [index, text] of to.entries()) {
    const family = parseCidr(text)?.cidr.family;
    if (family === undefined) continue;
    const lacks = isFixed ? fixed[family] === undefined : !pool.has(family);
    if (!lacks) continue;
    const what = isFixed ? 'this policy' : nameOf(gateway);
    const message = `${text} is IPv${family}, and ${what} has no IPv${family} address, so nothing gets there`;
    report([...POLICY_PATHS.to, index], message);
  }
}

function checkInside(policy: EgressPolicy, { inside }: PolicyWorld, report: Report): void {
  const { to = [] } = policy.spec;
  if (to.length === 0) return;
  const { to: path } = POLICY_PATHS;
  const covered = to.map((text) => {
    const cidr = parseCidr(text)?.cidr;
    return cidr !== undefined && inside.covers(cidr.family, toInterval(cidr));
  });
  if (covered.every(Boolean)) {
    report(path, 'is wholly inside the cluster, where nothing is steered; this policy matches nothing');
    return;
  }
  for (const [index, text] of to.entries()) {
    if (covered[index] === true)
      report([...path, index], `${text} is inside the cluster, where nothing is steered`, 'warning');
  }
}
