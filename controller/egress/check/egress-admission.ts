import { isDeepStrictEqual } from 'node:util';
import type { EgressConfig } from '../../../apis/egress/config.ts';
import type { EgressGateway, EgressPolicy } from '../../../apis/egress/objects.ts';
import type { ClusterObject } from '../../../apis/objects.ts';
import { GATEWAY_PATHS, POLICY_PATHS } from '../../../apis/validate/egress/kinds.ts';
import { displayName, identityOf } from '../../../apis/validate/metadata.ts';
import { formatPath } from '../../../apis/validate/problem.ts';
import type { AdmissionExtension, ExtensionWorld } from '../../extension/object-extension.ts';
import { ALLOWED, MOST_OTHERS, MOST_OWN, refuse, shown, toWarning } from '../../webhook/refusal.ts';
import type { Admission, AdmissionRequest } from '../../webhook/review.ts';
import { gatewayChooser } from '../gateways.ts';
import { lostAddresses, lostPolicies } from './in-use.ts';
import { type CheckObjects, IncrementalChecks } from './incremental.ts';
import { limitProblem } from './namespace-limits.ts';

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
