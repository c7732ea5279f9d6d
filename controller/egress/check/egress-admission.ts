import { isDeepStrictEqual } from 'node:util';
import type { EgressConfig, NamespaceLimits } from '../../../apis/egress/config.ts';
import type { EgressGateway, EgressPolicy } from '../../../apis/egress/objects.ts';
import type { ClusterObject } from '../../../apis/objects.ts';
import { GATEWAY_PATHS, POLICY_PATHS } from '../../../apis/validate/egress/kinds.ts';
import { displayName, identityOf } from '../../../apis/validate/metadata.ts';
import { type CrossProblem, formatPath, type ObjectProblem } from '../../../apis/validate/problem.ts';
import { isInPool, toPool } from '../../../lib/net/address-pool.ts';
import { addToList, compareText } from '../../../lib/sharing/lists.ts';
import type { AdmissionExtension, ExtensionWorld } from '../../extension/extension.ts';
import {
  type Admission,
  type AdmissionRequest,
  ALLOWED,
  MOST_OTHERS,
  MOST_OWN,
  refuse,
  shown,
  toWarning,
} from '../../webhook/review.ts';
import { HolderRecords } from '../order.ts';
import { gatewayChooser } from '../ways.ts';
import { type CheckObjects, IncrementalChecks } from './incremental.ts';

type Objects = NonNullable<ExtensionWorld['objects']>;

type EgressObject = EgressGateway | EgressPolicy;

function isEgressObject(object: ClusterObject): object is EgressObject {
  return ['EgressGateway', 'EgressPolicy', 'ClusterEgressPolicy'].includes(object.kind);
}

/** Checks egress gateways and policies beside the others of the cluster. Keeps indexes of those. */
export class EgressAdmission implements AdmissionExtension {
  #config: EgressConfig | null = null;
  #checks: IncrementalChecks | null = null;

  change(valid: ClusterObject, world: ExtensionWorld): Admission | null {
    return isEgressObject(valid) ? this.#change(valid, world) : null;
  }

  #change(valid: EgressObject, { objects, egress }: ExtensionWorld): Admission {
    if (objects === null || egress === undefined) return { ...ALLOWED, warnings: [NOT_YET] };
    const checks = this.#checksFor(egress);
    const before = sameObject(valid, objects);
    // The status is the controller's, whatever was sent.
    const next = { ...valid, status: before?.status ?? null } as EgressObject;
    const after = withObject(toCheckObjects(objects), before, next);
    const beyond =
      next.kind === 'EgressGateway'
        ? null
        : limitProblem(next, objects.egressPolicies, egress.namespaceLimits);
    if (beyond !== null) return refuse(shown([beyond], MOST_OWN), true);
    const own = next.kind === 'EgressGateway' ? checks.ofGateway(after, next) : checks.ofPolicy(after, next);
    const errors = own.filter(({ problem }) => problem.severity === 'error' && !problem.isMissing);
    if (errors.length > 0) return refuse(shown(errors, MOST_OWN), true);
    const warnings = own.map(({ problem }) => toWarning(problem));
    if (next.kind !== 'EgressGateway' && own.some(({ problem }) => problem.isMissing))
      return { ...ALLOWED, warnings, isMissing: true };
    if (next.kind !== 'EgressGateway' || before?.kind !== 'EgressGateway') return { ...ALLOWED, warnings };
    const all = toCheckObjects(objects);
    const lost = lostAddresses(before, next, all);
    if (lost.length > 0) {
      const path = formatPath(GATEWAY_PATHS.ranges);
      return refuse(
        [`${next.kind}/${next.name}: ${path}: would lose addresses in use`, ...inUse(lost)],
        true,
      );
    }
    return { ...ALLOWED, warnings: [...warnings, ...withoutGateway(lostPolicies(before, next, all))] };
  }

  /** A gateway whose addresses policies have can't be deleted; policies always can. */
  deletion(identity: string, { objects, egress }: ExtensionWorld): Admission {
    if (objects === null || egress === undefined) return ALLOWED;
    const before = objects.egressGateways.find((gateway) => identityOf(gateway) === identity);
    if (before === undefined) return ALLOWED;
    const all = toCheckObjects(objects);
    const lost = lostAddresses(before, null, all);
    if (lost.length > 0)
      return refuse([`${before.kind}/${before.name}: is in use`, ...inUse(lost)], true, 'Conflict');
    return { ...ALLOWED, warnings: withoutGateway(lostPolicies(before, null, all)) };
  }

  /** Asks for the right that a policy with an address of its own needs. */
  right(valid: ClusterObject, { user }: AdmissionRequest, { objects }: ExtensionWorld): Admission {
    if (!isEgressObject(valid) || valid.kind === 'EgressGateway') return ALLOWED;
    const { action, address } = valid.spec;
    const { allocation } = address;
    if (action !== 'Gateway' || (allocation !== 'Fixed' && allocation !== 'Dedicated')) return ALLOWED;
    const subject = `${valid.kind}/${displayName(valid)}: ${formatPath(POLICY_PATHS.address)}`;
    const why = `allocation ${allocation} needs the right to use the gateway, and`;
    if (user === null)
      return refuse([`${subject}: ${why} the request does not say whose it is`], false, 'Forbidden');
    const gateway = valid.spec.gateway ?? (objects === null ? null : chosenGateway(valid, objects));
    if (gateway === null) return refuse([`${subject}: ${why} it is not known which one that is`], true);
    return { ...ALLOWED, use: { user, gateway, namespace: valid.namespace, subject } };
  }

  #checksFor(config: EgressConfig): IncrementalChecks {
    if (this.#checks === null || !isDeepStrictEqual(config, this.#config)) {
      this.#config = config;
      this.#checks = new IncrementalChecks(config);
    }
    return this.#checks;
  }
}

function toCheckObjects({ outsidePods, pods, ...objects }: Objects): CheckObjects {
  return { ...objects, pods: outsidePods ?? pods };
}

function sameObject(object: EgressObject, objects: Objects): EgressObject | undefined {
  const list: readonly EgressObject[] =
    object.kind === 'EgressGateway' ? objects.egressGateways : objects.egressPolicies;
  const identity = identityOf(object);
  return list.find((one) => identityOf(one) === identity);
}

function withObject(
  objects: CheckObjects,
  before: EgressObject | undefined,
  next: EgressObject,
): CheckObjects {
  const replaced = <T extends EgressObject>(list: readonly T[], one: T): readonly T[] => [
    ...list.filter((other) => other !== before),
    one,
  ];
  return next.kind === 'EgressGateway'
    ? { ...objects, egressGateways: replaced(objects.egressGateways, next) }
    : { ...objects, egressPolicies: replaced(objects.egressPolicies, next) };
}

function chosenGateway(policy: EgressPolicy, { egressGateways, namespaces }: Objects): string | null {
  const namespace = namespaces.find(({ name }) => name === policy.namespace);
  const { gateway, name } = gatewayChooser(egressGateways)(policy, namespace?.labels ?? {});
  return gateway?.name ?? name;
}

function inUse(lost: ReturnType<typeof lostAddresses>): string[] {
  const problems = lost.map(({ address, policy: object }) => {
    const message = `has ${address}; delete this policy, or give it another gateway or address, before`;
    return { object, problem: { severity: 'error' as const, path: [], message } };
  });
  return shown(problems, MOST_OTHERS);
}

function withoutGateway(policies: readonly EgressPolicy[]): string[] {
  const names = policies.slice(0, MOST_OTHERS).map((policy) => `${policy.kind} ${displayName(policy)}`);
  if (names.length === 0) return [];
  const more = policies.length > names.length ? ` and ${policies.length - names.length} more` : '';
  return [`what these policies match is no longer steered: ${names.join(', ')}${more}`];
}

const NOT_YET = 'nodewall has just started: it checks references to other objects later, see the status';

/** An address and a policy that has it by the statuses. */
interface UsedAddress {
  readonly address: string;
  readonly policy: EgressPolicy;
}

/**
 * The floating addresses that policies have, and that the gateway would not have any more. An
 * address that is only held back is nobody's.
 *
 * @param before one of the objects
 * @param now null: deleted
 */
function lostAddresses(
  before: EgressGateway,
  now: EgressGateway | null,
  { egressGateways, egressPolicies, namespaces }: CheckObjects,
): UsedAddress[] {
  if (before.spec.source === 'Node') return [];
  const had = toPool(before.spec.ranges);
  const has = toPool(now?.spec.source === 'Floating' ? now.spec.ranges : []);
  const isLost = (address: string): boolean => isInPool(had, address) && !isInPool(has, address);
  const records = new HolderRecords(before.status);
  const choose = gatewayChooser(egressGateways);
  const labelsOf = new Map(namespaces.map(({ name, labels }) => [name, labels]));
  return egressPolicies.flatMap((policy) => {
    if (policy.spec.action !== 'Gateway' || policy.spec.mode === 'Audit') return [];
    const told = policy.status?.addresses ?? [];
    const own = [...new Set([...told, ...records.inUse(policy)])].filter(isLost);
    if (own.length === 0) return [];
    const { gateway, isAllowed } = choose(policy, labelsOf.get(policy.namespace) ?? {});
    return gateway === before && isAllowed ? own.map((address) => ({ address, policy })) : [];
  });
}

/** Policies that the gateway serves, and would not serve any more. */
function lostPolicies(
  before: EgressGateway,
  now: EgressGateway | null,
  { egressGateways, egressPolicies, namespaces }: CheckObjects,
): EgressPolicy[] {
  const rest = egressGateways.filter((gateway) => gateway !== before);
  const choose = gatewayChooser(egressGateways);
  const chooseNow = gatewayChooser(now === null ? rest : [...rest, now]);
  const labelsOf = new Map(namespaces.map(({ name, labels }) => [name, labels]));
  return egressPolicies.filter((policy) => {
    if (policy.spec.action !== 'Gateway') return false;
    const labels = labelsOf.get(policy.namespace) ?? {};
    const had = choose(policy, labels);
    if (had.gateway !== before || !had.isAllowed) return false;
    const has = chooseNow(policy, labels);
    return has.gateway === null || !has.isAllowed;
  });
}

/**
 * The EgressPolicies that are beyond the limits of their namespace, so that whoever may write them
 * in one namespace costs the others nothing. ClusterEgressPolicies have no limit.
 *
 * @param lists those of an earlier list have what they need before those of a later one; in a list
 *   the policies that were created first do
 */
export function beyondLimits(
  lists: readonly (readonly EgressPolicy[])[],
  limits: NamespaceLimits,
): CrossProblem<EgressPolicy>[] {
  const totals = new Map<string, NamespaceLimits>();
  return lists.flatMap((policies) => {
    const own = new Map<string, EgressPolicy[]>();
    for (const policy of policies) if (policy.namespace !== '') addToList(own, policy.namespace, policy);
    return [...own].flatMap(([namespace, there]) =>
      there.sort(compareAge).flatMap((object) => {
        const { policies: count, networks } = totals.get(namespace) ?? NONE;
        const total = { policies: count + 1, networks: networks + networksOf(object) };
        const problem = problemOf(object, total, limits);
        if (problem !== null) return [{ object, problem }];
        totals.set(namespace, total);
        return [];
      }),
    );
  });
}

/**
 * The problem of one policy that is written beside others; null: it is within the limits, or has no
 * more than before.
 */
function limitProblem(
  policy: EgressPolicy,
  others: readonly EgressPolicy[],
  limits: NamespaceLimits,
): CrossProblem<EgressPolicy> | null {
  if (policy.namespace === '') return null;
  const identity = identityOf(policy);
  let [policies, networks] = [1, networksOf(policy)];
  for (const other of others) {
    if (other.namespace !== policy.namespace) continue;
    if (identityOf(other) !== identity) {
      policies++;
      networks += networksOf(other);
    } else if (networksOf(policy) <= networksOf(other)) return null;
  }
  const problem = problemOf(policy, { policies, networks }, limits);
  return problem === null ? null : { object: policy, problem };
}

const NONE: NamespaceLimits = { policies: 0, networks: 0 };

function networksOf({ spec: { to = [], except } }: EgressPolicy): number {
  return Math.max(1, to.length + except.length);
}

function compareAge(a: EgressPolicy, b: EgressPolicy): number {
  return compareText(a.created ?? '', b.created ?? '') || compareText(identityOf(a), identityOf(b));
}

function problemOf(
  policy: EgressPolicy,
  total: NamespaceLimits,
  limits: NamespaceLimits,
): ObjectProblem | null {
  const whose = `EgressPolicies of namespace ${policy.namespace}`;
  const otherwise = 'or ask an administrator to raise egress.namespaceLimits';
  if (total.policies > limits.policies) {
    const message = `there are more than ${limits.policies} ${whose}, the limit; delete or join some, ${otherwise}`;
    return { severity: 'error', path: [], message };
  }
  if (total.networks <= limits.networks) return null;
  const message = `${whose} have more than ${limits.networks} networks with it, the limit; name fewer and larger ones, ${otherwise}`;
  return { severity: 'error', path: [], message };
}
