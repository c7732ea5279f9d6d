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
