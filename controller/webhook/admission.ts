import { isDeepStrictEqual } from 'node:util';
import { type Config, DEFAULT_CONFIG } from '../../apis/config.ts';
import {
  type ClusterGroup,
  type ClusterNetworkPolicy,
  type ClusterObject,
  type ClusterObjects,
  type Guardrail,
  NO_OBJECTS,
  type Tier,
} from '../../apis/objects.ts';
import { LONGEST_SPEC } from '../../apis/policy-status.ts';
import { openApiSchema } from '../../apis/schema/crd.ts';
import { asFields, type FieldMap, overLimit } from '../../apis/schema/json-schema.ts';
import { claimedIdentity, identityOf } from '../../apis/validate/metadata.ts';
import { untilThen } from '../../apis/validate/nearest.ts';
import { type ValidateOptions, validateObject } from '../../apis/validate/object.ts';
import type { ObjectProblem } from '../../apis/validate/problem.ts';
import { checkPolicyReferences, checkServiceReferences } from '../../apis/validate/references.ts';
import { ruleNames } from '../compile/policy-rules.ts';
import type { AdmissionExtension, ExtensionObjects } from '../extension/extension.ts';
import { OBJECT_EXTENSION } from '../extension/objects.ts';
import {
  type Consequences,
  consequences,
  deletionLosses,
  type RelatedObject,
  type RelatedProblem,
  unstagedWarnings,
} from './deletion.ts';
import { dualStackNodes, oneFamilyWarnings } from './family-risks.ts';
import { type PodAccessObjects, podAccessWarnings } from './pod-access.ts';
import {
  type Admission,
  type AdmissionPatch,
  type AdmissionRequest,
  ALLOWED,
  MOST_OTHERS,
  MOST_OWN,
  problemLines,
  refuse,
  shown,
  toWarning,
} from './review.ts';
import {
  closedProbeWarnings,
  failsafeWarnings,
  groupNodeWarnings,
  hiddenPodWarnings,
  widePortWarnings,
} from './risks.ts';
import { serviceWarnings } from './service-risks.ts';

/** The valid objects of the cluster that an answer depends on. */
export type AdmissionObjects = PodAccessObjects &
  ExtensionObjects &
  Pick<ClusterObjects, 'services' | 'guardrails'>;

/** The state besides the request that the answer depends on. */
export interface AdmissionWorld {
  /** Null until all have been listed. */
  readonly objects: AdmissionObjects | null;
  /** Identities of the groups that wait for a child group; absent: none. */
  readonly waiting?: ReadonlySet<string>;
  /**
   * Identities of Tiers and ClusterGroups among `objects` that were deleted, and are in force for
   * those that used them then; absent: none.
   */
  readonly gone?: ReadonlySet<string>;
  /** The agents' failsafe lists, with an entry for each known port of the API server. */
  readonly failsafe: Config['failsafe'];
  /** Whether the agents learn names from the answers of any DNS server. */
  readonly believesAnyServer: boolean;
  /** Names of link groups in the agents' configuration. */
  readonly interfaceGroups: readonly string[];
  /**
   * The program that hides pods from other Nodes (risks.ts); null or absent: none is known.
   */
  readonly masquerader?: string | null;
  /** The configuration of egress gateways; absent: their feature gate is off. */
  readonly egress?: Config['egress'];
}

/**
 * Both refuse invalid objects. The API server calls `mutate` before it checks the schema, so users
 * see the same messages as from the command `validate`. Only `mutate` patches, and only `validate`
 * warns. `use` is about the user's right to choose an address of an egress gateway, and nothing
 * else.
 */
export type AdmissionStep = 'mutate' | 'validate' | 'use';

/**
 * The answer to a request about an object of nodewall.io; requests about other objects are allowed.
 */
export function admit(
  request: AdmissionRequest,
  step: AdmissionStep,
  world: AdmissionWorld,
  extension: AdmissionExtension = OBJECT_EXTENSION.admission(),
): Admission {
  const { operation, object, oldObject } = request;
  if (operation === 'DELETE') return oldObject === null ? ALLOWED : admitDeletion(request, world, extension);
  if (object === null || !isOurs(object) || isUntouched(object, oldObject)) return ALLOWED;
  const raw = withName(object);
  if (OBJECT_EXTENSION.kinds.includes(String(raw.kind)) && world.egress === undefined)
    return step === 'use' ? rightWhileOff(raw, request, extension) : { ...ALLOWED, warnings: [GATE_OFF] };
  const tooLong = overLong(raw);
  if (tooLong !== null) return refuse(problemLines(raw, [tooLong]), false);
  const { object: valid, problems } = validateObject(raw, optionsOf(world));
  const errors = problems.filter(({ severity }) => severity === 'error');
  if (errors.length > 0 || valid === null) return refuse(problemLines(raw, errors), false);
  if (step === 'use') return extension.right(valid, request, world);
  const extended = extension.change(valid, world);
  if (extended !== null && extended.rejection !== null) return extended;
  if (extended !== null) return { ...extended, warnings: [...problems.map(toWarning), ...extended.warnings] };
  if (valid.kind === 'Guardrail') return admitGuardrail(valid, problems, step, world);
  if (!isRelated(valid)) return ALLOWED;
  const moved = movedTier(valid, oldObject);
  if (moved !== null) return refuse(problemLines(raw, [moved]), false);
  const identity = identityOf(valid);
  const { own, others } = effectsOf(identity, valid, world);
  const missing = own.filter(({ problem }) => problem.isMissing);
  if (missing.length > 0 && !fitsStatus(identity, world)) return refuse(shown(own, MOST_OWN), true);
  // A group that waits is not there for those that use its version in force, unless they keep that.
  const isKept = world.gone?.has(identity) === true;
  const left = missing.length === 0 || isKept ? others : effectsOf(identity, null, world).others;
  if (own.length > missing.length || (missing.length > 0 && left.length > 0))
    return refuse(shown(own, MOST_OWN), true);
  if (left.length > 0) {
    const first = `${valid.kind}/${valid.name}: would make other objects invalid`;
    return refuse([first, ...shown(left, MOST_OTHERS)], true);
  }
  if (step === 'mutate') {
    const patch = valid.kind === 'ClusterNetworkPolicy' ? defaultsOf(raw, valid) : [];
    return { ...ALLOWED, patch };
  }
  if (missing.length > 0) return waitingAdmission(problems, missing);
  const warnings = [...problems.map(toWarning), ...warningsOf(valid, world)];
  return { ...ALLOWED, warnings, change: { kind: valid.kind, identity, next: valid } };
}

function optionsOf({
  failsafe,
  believesAnyServer,
  interfaceGroups,
  egress,
}: AdmissionWorld): ValidateOptions {
  const options = { failsafe: failsafe.ingress, believesAnyServer, interfaceGroups };
  return egress === undefined ? options : { ...options, egress: true, egressConfig: egress };
}

/**
 * Nobody asks again when the gate is turned on, so the right is asked for at once. What is wrong in
 * itself has no effect then, either. Gateways are not watched: the policy must name its own.
 */
function rightWhileOff(raw: FieldMap, request: AdmissionRequest, extension: AdmissionExtension): Admission {
  const options = { egress: true, egressConfig: DEFAULT_CONFIG.egress } as const;
  const { object: valid, problems } = validateObject(raw, options);
  const isWrong = valid === null || problems.some(({ severity }) => severity === 'error');
  return isWrong ? ALLOWED : extension.right(valid, request, { objects: null });
}

function admitGuardrail(
  guardrail: Guardrail,
  problems: readonly ObjectProblem[],
  step: AdmissionStep,
  world: AdmissionWorld,
): Admission {
  const { objects, interfaceGroups, waiting = NOTHING } = world;
  const there = objects === null ? NO_OBJECTS : thatExist(objects, world);
  const named = { ...there, interfaceGroups, waiting, invalid: waiting };
  const unknown = objects === null ? [] : checkPolicyReferences([guardrail], named);
  const missing = unknown.filter(({ problem }) => problem.isMissing);
  // Its version in force would be lost with the last controller that has it.
  const isInForce = objects?.guardrails.some(({ name }) => name === guardrail.name) === true;
  if (unknown.length > (isInForce ? 0 : missing.length)) return refuse(shown(unknown, MOST_OWN), true);
  if (step === 'mutate') return ALLOWED;
  if (missing.length > 0) return waitingAdmission(problems, missing);
  const change = { kind: guardrail.kind, identity: identityOf(guardrail), next: guardrail };
  return { ...ALLOWED, warnings: problems.map(toWarning), change };
}

function isOurs({ apiVersion }: FieldMap): boolean {
  return typeof apiVersion === 'string' && apiVersion.startsWith('nodewall.io/');
}

function isRelated(object: ClusterObject): object is RelatedObject {
  return ['ClusterNetworkPolicy', 'ClusterGroup', 'Tier'].includes(object.kind);
}

/**
 * Labels, finalizers and the like of an object that became invalid can still be changed, and it can
 * be deleted. One that is being deleted is in force until it is gone, so its spec is checked.
 */
function isUntouched(object: FieldMap, oldObject: FieldMap | null): boolean {
  return oldObject !== null && isDeepStrictEqual(object.spec, oldObject.spec);
}

const SCHEMAS = {
  ClusterNetworkPolicy: openApiSchema('ClusterNetworkPolicy'),
  ClusterGroup: openApiSchema('ClusterGroup'),
  Tier: openApiSchema('Tier'),
  Guardrail: openApiSchema('Guardrail'),
  EgressGateway: openApiSchema('EgressGateway'),
  EgressPolicy: openApiSchema('EgressPolicy'),
  ClusterEgressPolicy: openApiSchema('ClusterEgressPolicy'),
} as const;

/**
 * The API server enforces the limits of the CRDs only after `/mutate`, and anybody who reaches the
 * port can send an object: so lists that are too long are refused before anything else reads them.
 */
function overLong(raw: FieldMap): ObjectProblem | null {
  const kind = String(raw.kind);
  if (!Object.hasOwn(SCHEMAS, kind)) return null;
  const found = overLimit(SCHEMAS[kind as keyof typeof SCHEMAS], raw);
  if (found === null) return null;
  const message = `has ${found.count} entries, and at most ${found.most} are allowed; split the object`;
  return { severity: 'error', path: found.path, message };
}

/** The API server generates a name from generateName only after admission. */
function withName(raw: FieldMap): FieldMap {
  const { name, generateName, ...others } = asFields(raw.metadata) ?? {};
  if (name || typeof generateName !== 'string') return raw;
  return { ...raw, metadata: { ...others, generateName, name: `${generateName}xxxxx` } };
}

function movedTier(object: RelatedObject, oldObject: FieldMap | null): ObjectProblem | null {
  if (object.kind !== 'Tier' || oldObject === null) return null;
  const before = asFields(oldObject.spec)?.priority;
  if (before === object.priority) return null;
  const message = `can't be changed (it is ${before}): every policy of the tier would move; create another tier`;
  return { severity: 'error', path: ['spec', 'priority'], message };
}

const NONE: Consequences = { own: [], others: [] };

function effectsOf(identity: string, next: RelatedObject | null, world: AdmissionWorld): Consequences {
  const { objects, interfaceGroups, waiting = NOTHING } = world;
  if (objects === null) return NONE;
  const named = { interfaceGroups, waiting };
  const effects = consequences(objects, identity, next, named);
  const there = thatExist(objects, world);
  // No other object may take the priority of a deleted Tier that is in force.
  if (there === objects || next === null || next.kind === 'Tier') return effects;
  return { own: consequences(there, identity, next, named).own, others: effects.others };
}

/** Without what was deleted, and groups that wait for it: their users of then alone have them. */
function thatExist(objects: AdmissionObjects, { gone = NOTHING, waiting = NOTHING }: AdmissionWorld) {
  if (gone.size === 0) return objects;
  const exists = (one: Tier | ClusterGroup): boolean =>
    !gone.has(identityOf(one)) && !waiting.has(identityOf(one));
  return { ...objects, tiers: objects.tiers.filter(exists), groups: objects.groups.filter(exists) };
}

const NOTHING: ReadonlySet<string> = new Set();

/** Whether a status can store a policy's version in force, for controllers that start later. */
function fitsStatus(identity: string, { objects }: AdmissionWorld): boolean {
  const inForce = objects?.policies.find((policy) => identityOf(policy) === identity);
  return inForce === undefined || JSON.stringify(inForce.spec).length <= LONGEST_SPEC;
}

/** Admits an object that is not enforced before those exist that it names: then it is evaluated. */
function waitingAdmission(problems: readonly ObjectProblem[], missing: readonly RelatedProblem[]): Admission {
  const warnings = missing.map(({ problem }) =>
    toWarning({ ...problem, message: untilThen(problem.message) }),
  );
  return { ...ALLOWED, isMissing: true, warnings: [...problems.map(toWarning), ...warnings] };
}

/**
 * The users of a Tier or ClusterGroup go on with its last definition, which their status must have
 * before the object goes. So nothing in force changes, and no Guardrail is asked.
 */
function admitDeletion(
  { oldObject, isDryRun }: AdmissionRequest,
  world: AdmissionWorld,
  extension: AdmissionExtension,
): Admission {
  const raw = oldObject ?? {};
  if (!isOurs(raw)) return ALLOWED;
  if (OBJECT_EXTENSION.kinds.includes(String(raw.kind)))
    return extension.deletion(claimedIdentity(raw).identity, world);
  const { identity, kind, name } = claimedIdentity(raw);
  const change = { kind, identity, next: null } as const;
  if (kind === 'ClusterNetworkPolicy') return { ...ALLOWED, change: { ...change, kind } };
  if (kind !== 'ClusterGroup' && kind !== 'Tier') return ALLOWED;
  if (world.objects === null) return refuse([`${kind}/${name}: ${NOT_READ}`], true, 'ServiceUnavailable');
  const { others } = effectsOf(identity, null, world);
  const uid = String(asFields(raw.metadata)?.uid ?? '');
  const { object } = validateObject(raw, optionsOf(world));
  const latest = object?.kind === 'Tier' || object?.kind === 'ClusterGroup' ? object : null;
  const deletion = deletionLosses({ identity, kind, name, uid, latest }, world.objects, others);
  const lines = shown(others, MOST_OTHERS);
  if (deletion.users.length === 0)
    return { ...ALLOWED, warnings: lines, change: { ...change, kind }, ...(isDryRun ? {} : { deletion }) };
  const warnings = [STAYS, ...lines.map((line) => `in use: ${line}`)];
  return isDryRun ? { ...ALLOWED, warnings } : { ...ALLOWED, warnings, deletion };
}

function warningsOf(object: RelatedObject, world: AdmissionWorld): string[] {
  const { objects } = world;
  const late = objects === null ? [NOT_YET] : [];
  if (object.kind === 'Tier') return late;
  const services = new Set(objects?.services.map(({ namespace, name }) => `${namespace}/${name}`));
  const missing =
    objects === null
      ? []
      : checkServiceReferences([object], (name) => services.has(name)).map(({ problem }) =>
          toWarning(problem),
        );
  if (object.kind === 'ClusterGroup')
    return [...late, ...missing, ...(objects === null ? [] : unstagedWarnings(object, objects))];
  return [...late, ...missing, ...policyWarnings(object, world)];
}

function policyWarnings(
  policy: ClusterNetworkPolicy,
  { objects, failsafe, masquerader = null }: AdmissionWorld,
): string[] {
  return [
    ...failsafeWarnings(policy, failsafe),
    ...widePortWarnings(policy, failsafe),
    ...closedProbeWarnings(policy, objects ?? NO_OBJECTS),
    ...serviceWarnings(policy, objects ?? NO_OBJECTS),
    ...hiddenPodWarnings(policy, objects ?? NO_OBJECTS, masquerader),
    ...groupNodeWarnings(policy, objects ?? NO_OBJECTS),
    ...oneFamilyWarnings(policy, objects ?? NO_OBJECTS, dualStackNodes(objects ?? NO_OBJECTS)),
    ...(objects === null ? [] : podAccessWarnings(policy, objects, failsafe.ingress)),
  ];
}

const STAYS =
  'is in use; what uses it goes on with its last definition until it is created again, or another is named';
const NOT_READ =
  'the controller is still reading the cluster, and does not know what uses it; try again in a moment';

const GATE_OFF = 'feature gate EgressGateway is off: nothing is steered, and nothing checks this object';

const NOT_YET = 'nodewall has just started: it checks references to tiers and groups later, see the status';

/**
 * Adds the defaults that a valid policy leaves out: the tier, and the rule names that compile would
 * make. The names are the same, so the policy has the same meaning with them as without.
 */
function defaultsOf(raw: FieldMap, policy: ClusterNetworkPolicy): AdmissionPatch[] {
  const patch: AdmissionPatch[] = [];
  const spec = asFields(raw.spec);
  if (spec?.tier === undefined || spec.tier === '') {
    patch.push({ op: 'add', path: '/spec/tier', value: 'application' });
  }
  const names = ruleNames(policy.spec);
  for (const direction of ['ingress', 'egress'] as const) {
    for (const [index, { name }] of (policy.spec[direction] ?? []).entries()) {
      const value = names[direction][index] ?? '';
      if (name === undefined) patch.push({ op: 'add', path: `/spec/${direction}/${index}/name`, value });
    }
  }
  return patch;
}
