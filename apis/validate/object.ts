import { believesAnyServer, type Config, DEFAULT_CONFIG, type FailsafeEntry } from '../config.ts';
import type { EgressConfig } from '../egress/config.ts';
import { API_VERSIONS, type ApiGroup, type ClusterObject } from '../objects.ts';
import { asFields, type FieldMap, type FieldPath } from '../schema/json-schema.ts';
import { podGroupsOf } from './applied-to.ts';
import { EGRESS_KINDS, validateEgressKind, validateInsideNetworks } from './egress/kinds.ts';
import { validateEndpointSlice, validateService } from './endpoints.ts';
import { checkForeign, SHARED_KINDS } from './foreign.ts';
import { validateGroup } from './group.ts';
import { validateGuardrail } from './guardrail.ts';
import { checkGatewayLabels } from './kubelet-labels.ts';
import { nearest } from './nearest.ts';
import { validateNamespace, validateNode, validatePod } from './node.ts';
import { validatePolicy } from './policy.ts';
import { type Findings, findings, hasError, type ObjectProblem, show } from './problem.ts';
import { validateTier } from './tier.ts';

export interface ValidatedObject {
  /** Null if the object is rejected, or is not used by nodewall (then there is no error). */
  readonly object: ClusterObject | null;
  /** All problems, in the order of the checks. */
  readonly problems: readonly ObjectProblem[];
  /**
   * The groups that decide whether this Antrea policy is for Nodes: if all of them select pods, it
   * is skipped with the single notice FOR_PODS_ONLY. Absent if the policy alone decides that.
   */
  readonly podGroups?: readonly string[];
}

export interface ValidateOptions {
  /**
   * The ingress failsafe list, for the warning about SSH; null: give no warnings about the risks of
   * valid policies.
   */
  readonly failsafe?: readonly FailsafeEntry[] | null;
  /** Whether agents learn names from the answers of any DNS server; absent: they do not. */
  readonly believesAnyServer?: boolean;
  /** Names of link groups in the agent's configuration; absent: those that always exist. */
  readonly interfaceGroups?: readonly string[];
  /** Networks outside of which no address of a Node counts; absent or empty: all count. */
  readonly nodeCIDRs?: readonly string[];
  /** The key of the taint that Nodes join with; absent or empty: none is configured. */
  readonly startupTaint?: string;
  /** Services whose endpoints count without a pod; absent: that of the API server alone. */
  readonly endpointsWithoutPods?: readonly string[];
  /**
   * Whether egress gateways are read, with the Nodes of pods; absent: they are not.
   */
  readonly egress?: boolean;
  /** Where egress gateways are read: their configuration; absent: the default. */
  readonly egressConfig?: EgressConfig;
  /** Whether policies without spec.rollout have a rollout too; absent: they have none. */
  readonly rollout?: boolean;
}

/** The agent's configuration, as far as manifests are validated by it. */
export function validateOptions(config: Config): ValidateOptions {
  const { failsafe, names, interfaceGroups, nodeCIDRs, featureGates, egress, rollout } = config;
  const { endpointsWithoutPods, startupTaint } = config;
  return {
    failsafe: failsafe.ingress,
    believesAnyServer: believesAnyServer(names),
    interfaceGroups: Object.keys(interfaceGroups),
    nodeCIDRs,
    startupTaint,
    endpointsWithoutPods,
    egress: featureGates.EgressGateway === true,
    egressConfig: egress,
    rollout: rollout !== null,
  };
}

const OWN_KINDS: readonly string[] = [...SHARED_KINDS, 'Guardrail', ...EGRESS_KINDS];

/**
 * Validates one Kubernetes object parsed from YAML, JSON or the API against everything that can be
 * checked from the object alone, and narrows it. Never throws. The caller unwraps lists with
 * unwrapList.
 */
export function validateObject(raw: unknown, options: ValidateOptions = {}): ValidatedObject {
  const found = findings();
  const fields = asFields(raw);
  if (fields === null) {
    found.error([], `is ${show(raw)}, not a Kubernetes object (apiVersion, kind, metadata, …)`);
    return { object: null, problems: found.problems };
  }
  const object = validateFields(fields, options, found);
  if (object?.kind === 'EgressGateway' && options.failsafe !== null) checkGatewayLabels(object, found);
  const podGroups = isAntreaPolicy(fields) ? (podGroupsOf(fields.spec) ?? []) : [];
  if (podGroups.length > 0) return { object, problems: found.problems, podGroups };
  return { object, problems: found.problems };
}

function isAntreaPolicy({ apiVersion, kind }: FieldMap): boolean {
  const group: ApiGroup = 'crd.antrea.io';
  return (
    kind === 'ClusterNetworkPolicy' && typeof apiVersion === 'string' && apiVersion.startsWith(`${group}/`)
  );
}

function validateFields(raw: FieldMap, options: ValidateOptions, found: Findings): ClusterObject | null {
  const { apiVersion, kind } = raw;
  checkText(apiVersion, 'apiVersion', found);
  checkText(kind, 'kind', found);
  if (typeof apiVersion !== 'string' || typeof kind !== 'string') return null;
  if (isListWithoutItems(raw)) {
    const what = raw.items === undefined ? 'is missing' : `is ${show(raw.items)}`;
    found.error(['items'], `${what}; it must be the list of the objects`);
    return null;
  }
  const [group = '', version = ''] = apiVersion.includes('/') ? apiVersion.split('/', 2) : ['', apiVersion];
  if (group === '' && version === 'v1') {
    if (kind === 'Node') return validateNode(raw, options, found);
    if (kind === 'Pod') return validatePod(raw, options.egress ?? false, found);
    if (kind === 'Namespace') return validateNamespace(raw, found);
    if (kind === 'Service') return validateService(raw, found);
  }
  if (apiVersion === 'discovery.k8s.io/v1' && kind === 'EndpointSlice') {
    return validateEndpointSlice(raw, options.endpointsWithoutPods ?? [], found);
  }
  if (options.egress === true) {
    const networks = validateInsideNetworks(raw, found);
    if (networks !== null || hasError(found.problems)) return networks;
  }
  const own = Object.keys(API_VERSIONS).find((name) => name === group || name === apiVersion);
  if (own !== undefined) return validateOwn(raw, own as ApiGroup, found, options);
  checkForeign({ apiVersion, kind }, OWN_KINDS, found);
  return null;
}

function validateOwn(
  raw: FieldMap,
  apiGroup: ApiGroup,
  found: Findings,
  { failsafe = DEFAULT_CONFIG.failsafe.ingress, believesAnyServer = false, egress = false }: ValidateOptions,
): ClusterObject | null {
  const kind = String(raw.kind);
  const isOurs = apiGroup === 'nodewall.io';
  if (isOurs && !egress && EGRESS_KINDS.includes(kind)) {
    found.notice([], 'is not read: the feature gate EgressGateway is off');
    return null;
  }
  const kinds = isOurs ? [...SHARED_KINDS, 'Guardrail', ...(egress ? EGRESS_KINDS : [])] : SHARED_KINDS;
  const known = kinds.includes(kind);
  if (!known && !isOurs) {
    checkForeign({ apiVersion: apiGroup, kind }, OWN_KINDS, found);
    return null;
  }
  const version = `${apiGroup}/${API_VERSIONS[apiGroup]}`;
  if (raw.apiVersion !== version) {
    found.error(['apiVersion'], `must be ${version}, not ${show(raw.apiVersion)}`);
  }
  if (!known) {
    const near = nearest(kind, kinds);
    const hint = near === null ? `known in ${apiGroup}: ${kinds.join(', ')}` : `did you mean ${near}?`;
    found.error(['kind'], `unknown kind ${show(kind)}; ${hint}`);
  }
  if (kind === 'ClusterGroup') return validateGroup(raw, apiGroup, found);
  if (kind === 'ClusterNetworkPolicy') {
    const risks = failsafe === null ? null : { failsafe, believesAnyServer };
    return validatePolicy(raw, apiGroup, risks, found);
  }
  if (kind === 'Tier') return validateTier(raw, apiGroup, found);
  if (isOurs && kind === 'Guardrail') return validateGuardrail(raw, found);
  return isOurs ? validateEgressKind(raw, found) : null;
}

function checkText(value: unknown, field: string, found: Findings): void {
  if (value === undefined || value === null || value === '') {
    found.error([field], 'is missing; every Kubernetes object has apiVersion and kind');
  } else if (typeof value !== 'string') found.error([field], `must be text, not ${show(value)}`);
}

/** One object of a document, with its path there. */
interface Item {
  readonly raw: unknown;
  readonly path: FieldPath;
}

/** Limit of lists nested in lists; deeper nesting is not expected in practice. */
const DEEPEST = 10;

/** Whether an object is a List (v1 List, PodList, …), whose `items` are objects. */
export function isList(raw: FieldMap): boolean {
  return typeof raw.kind === 'string' && raw.kind.endsWith('List') && Array.isArray(raw.items);
}

/** Lists of the kinds that nodewall reads. Another kind may end in List without being a list. */
const LISTS = [
  'List',
  'NodeList',
  'PodList',
  'NamespaceList',
  'ServiceList',
  'EndpointSliceList',
  'TierList',
  'ClusterNetworkPolicyList',
  'ClusterGroupList',
  'EgressGatewayList',
  'EgressPolicyList',
  'ClusterEgressPolicyList',
  'ServiceCIDRList',
  'IPPoolList',
];

/**
 * Whether an object is of a List kind but has no list of items: its objects would be lost silently.
 */
function isListWithoutItems(raw: FieldMap): boolean {
  return typeof raw.kind === 'string' && LISTS.includes(raw.kind) && !Array.isArray(raw.items);
}

/**
 * The objects in a document: the document itself, or the items of a list in it, at any depth. The
 * API's typed lists (PodList) omit kind and apiVersion in their items; these are filled in.
 */
export function* unwrapList(raw: unknown, path: FieldPath = []): Generator<Item> {
  const fields = asFields(raw);
  if (fields === null || !isList(fields) || path.length >= 2 * DEEPEST) {
    yield { raw, path };
    return;
  }
  for (const [index, item] of (fields.items as readonly unknown[]).entries()) {
    yield* unwrapList(withKind(item, fields), [...path, 'items', index]);
  }
}

/** An item of a typed list, with kind and apiVersion taken from the list. */
export function withKind(item: unknown, { kind, apiVersion }: FieldMap): unknown {
  const fields = asFields(item);
  if (fields === null || kind === 'List' || 'kind' in fields || 'apiVersion' in fields) return item;
  return { ...fields, apiVersion, kind: String(kind).slice(0, -'List'.length) };
}
