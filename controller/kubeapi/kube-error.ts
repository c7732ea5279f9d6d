/** A failed request to the API server. */
export class KubeError extends Error {
  override readonly name = 'KubeError';
  /** HTTP status; 0 if there was no answer. */
  readonly status: number;
  /**
   * The reason of the metav1.Status (`NotFound`, `Conflict`, `Forbidden` …); without an answer
   * `Unreachable`, `Timeout` or `Aborted`.
   */
  readonly reason: string;
  /** The wait that the server asks for (seconds); null: none. */
  readonly retryAfter: number | null;
  /**
   * The RBAC rule that the request lacks, if it was forbidden; null: it was not, or its path is no
   * resource's.
   */
  readonly rule: RbacRule | null;

  constructor(
    message: string,
    { status = 0, reason, retryAfter = null, rule = null, cause }: KubeErrorOptions,
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.status = status;
    this.reason = reason;
    this.retryAfter = retryAfter;
    this.rule = rule;
  }
}

interface KubeErrorOptions {
  readonly status?: number;
  readonly reason: string;
  readonly retryAfter?: number | null;
  readonly rule?: RbacRule | null;
  readonly cause?: unknown;
}

/** Whether it is a KubeError, with one of these reasons if any are given. */
export function isKubeError(error: unknown, ...reasons: readonly string[]): error is KubeError {
  return error instanceof KubeError && (reasons.length === 0 || reasons.includes(error.reason));
}

/** Null if the object doesn't exist. */
export async function orNull<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer;
  } catch (error) {
    if (isKubeError(error, 'NotFound')) return null;
    throw error;
  }
}

/**
 * The reason for a response without metav1.Status, from a proxy or from an API server that is
 * starting.
 */
export function reasonOfStatus(status: number): string {
  return REASONS.get(status) ?? (status >= 500 ? 'InternalError' : 'Unknown');
}

/** Values of apimachinery's metav1.StatusReason. */
const REASONS: ReadonlyMap<number, string> = new Map([
  [400, 'BadRequest'],
  [401, 'Unauthorized'],
  [403, 'Forbidden'],
  [404, 'NotFound'],
  [405, 'MethodNotAllowed'],
  [406, 'NotAcceptable'],
  [409, 'Conflict'],
  [410, 'Gone'],
  [413, 'RequestEntityTooLarge'],
  [415, 'UnsupportedMediaType'],
  [422, 'Invalid'],
  [429, 'TooManyRequests'],
  [503, 'ServiceUnavailable'],
  [504, 'Timeout'],
]);

/** The one rule of a Role or ClusterRole that a request needs. */
export interface RbacRule {
  readonly apiGroups: readonly [string];
  /** Includes the subresource: `clusternetworkpolicies/status`. */
  readonly resources: readonly [string];
  readonly verbs: readonly [string];
  readonly resourceNames?: readonly [string];
  /** The namespace that the Role must be in; null for a ClusterRole. */
  readonly namespace: string | null;
}

/** Null if the path is not that of a resource (`/healthz`, discovery). */
export function rbacRule(method: string, path: string): RbacRule | null {
  const [root, ...steps] = path
    .split('/')
    .filter((step) => step !== '')
    .map(decodeURIComponent);
  const apiGroup = root === 'apis' ? steps.shift() : root === 'api' ? '' : undefined;
  // Skips the version.
  steps.shift();
  if (apiGroup === undefined || steps.length === 0) return null;
  const namespace = steps[0] === 'namespaces' && steps.length > 2 ? (steps[1] ?? null) : null;
  const [resource, name, subresource] = namespace === null ? steps : steps.slice(2);
  if (resource === undefined) return null;
  const verb = name === undefined ? COLLECTION_VERBS[method] : VERBS[method];
  return {
    apiGroups: [apiGroup],
    resources: [subresource === undefined ? resource : `${resource}/${subresource}`],
    verbs: [verb ?? method.toLowerCase()],
    // RBAC can't restrict `create` by name.
    ...(name === undefined ? {} : { resourceNames: [name] }),
    namespace,
  };
}

const VERBS: Readonly<Record<string, string>> = {
  GET: 'get',
  PUT: 'update',
  PATCH: 'patch',
  DELETE: 'delete',
};
const COLLECTION_VERBS: Readonly<Record<string, string>> = {
  GET: 'list',
  POST: 'create',
  DELETE: 'deletecollection',
};

/** Formats the rule as in a manifest, on one line. */
export function formatRbacRule({ namespace, ...rule }: RbacRule): string {
  const fields = Object.entries(rule).map(([key, values]) => `${key}: ${JSON.stringify(values)}`);
  const place = namespace === null ? 'a ClusterRole' : `a Role in namespace ${namespace}`;
  return `{${fields.join(', ')}} in ${place}`;
}

/** Roles that controllers lose with certificates of others (overlay certmanager). */
const OF_AUTHORITY: ReadonlySet<string> = new Set([
  'secrets',
  'mutatingwebhookconfigurations',
  'validatingwebhookconfigurations',
]);
/** Controllers may read those of all namespaces, by a ClusterRole. */
const OF_ALL_NAMESPACES: ReadonlySet<string> = new Set(['pods', 'services', 'endpointslices']);

/** The role of deploy/rbac.yaml that gives controllers what the rule says, as people name it. */
export function controllerRole({ resources: [resource], namespace }: RbacRule): string {
  const name = OF_AUTHORITY.has(resource) ? 'nodewall-controller-ca' : 'nodewall-controller';
  return namespace === null || OF_ALL_NAMESPACES.has(resource)
    ? `ClusterRole ${name}`
    : `Role ${name} in namespace ${namespace}`;
}

/** A right that a controller lacks, and the role that gives it, as a clause. */
export function formatMissingRight(rule: RbacRule): string {
  const {
    verbs: [verb],
    resources: [resource],
    apiGroups: [group],
    namespace,
  } = rule;
  const of = namespace === null ? '' : ` in namespace ${namespace}`;
  return `it may not ${verb} ${resource}${group === '' ? '' : `.${group}`}${of}, which ${controllerRole(rule)} of deploy/rbac.yaml allows`;
}

/** The ClusterRole for people of deploy/rbac.yaml that has the rule; null: none. */
export function shippedRole({
  apiGroups: [group],
  resources: [resource],
  verbs: [verb],
}: RbacRule): string | null {
  if (group === 'controlplane.nodewall.io') return 'nodewall-view';
  if (group !== 'nodewall.io') return null;
  if (['get', 'list', 'watch'].includes(verb)) return 'nodewall-view';
  return resource === 'clusternetworkpolicies' && verb === 'patch' ? 'nodewall-operator' : null;
}
