import type { ValidateOptions } from '../../../apis/validate/object.ts';

/** A resource of the API, as listed and watched. */
export interface Resource {
  /** `pods`, `clusternetworkpolicies.nodewall.io`: the name in notices and metrics. */
  readonly name: string;
  readonly kind: string;
  readonly apiVersion: string;
  readonly plural: string;
  /** Defined by a CustomResourceDefinition, which may not exist. */
  readonly isCustom: boolean;
  /** Excludes on the server objects that nodewall would ignore. */
  readonly fieldSelector?: string;
}

/** Core and discovery: present in every cluster. */
export const BUILT_IN = [
  builtIn('Node', 'v1', 'nodes'),
  builtIn('Namespace', 'v1', 'namespaces'),
  {
    ...builtIn('Pod', 'v1', 'pods'),
    fieldSelector: 'status.phase!=Succeeded,status.phase!=Failed',
  },
  builtIn('Service', 'v1', 'services'),
  builtIn('EndpointSlice', 'discovery.k8s.io/v1', 'endpointslices'),
] as const satisfies readonly Resource[];

export const NODEWALL_API = custom('nodewall.io/v1alpha1');
export const ANTREA = custom('crd.antrea.io/v1beta1');

/** Not among NODEWALL: it has no counterpart of Antrea, and no last valid version in its status. */
export const GUARDRAIL = one('nodewall.io/v1alpha1', 'Guardrail', 'guardrails');

/** Gateways and policies of nodewall. */
export const EGRESS = [
  one('nodewall.io/v1alpha1', 'EgressGateway', 'egressgateways'),
  one('nodewall.io/v1alpha1', 'EgressPolicy', 'egresspolicies'),
  one('nodewall.io/v1alpha1', 'ClusterEgressPolicy', 'clusteregresspolicies'),
];

/** Networks inside the cluster: the API of ServiceCIDRs is new, that of IPPools is Calico's. */
const EGRESS_INSIDE = [
  one('networking.k8s.io/v1', 'ServiceCIDR', 'servicecidrs'),
  one('crd.projectcalico.org/v1', 'IPPool', 'ippools'),
];

/**
 * The resources that a controller watches in every cluster, in the order of a revision's position.
 */
export const WATCHED: readonly Resource[] = [...BUILT_IN, ...NODEWALL_API, ...ANTREA, GUARDRAIL];

/** Watched besides, after WATCHED, while the feature gate EgressGateway is on. */
export function egressResources({ egress }: ValidateOptions): readonly Resource[] {
  return egress === true ? [...EGRESS, ...EGRESS_INSIDE] : [];
}

/** Whether its objects are in namespaces: tenants may write them. */
export function isOfTenants({ kind }: Resource): boolean {
  return kind === 'EgressPolicy';
}

/** Whether it is of nodewall's API. */
export function isOwn({ apiVersion }: Resource): boolean {
  return apiVersion.startsWith('nodewall.io/');
}

function builtIn<const K extends string>(kind: K, apiVersion: string, plural: string) {
  return { name: plural, kind, apiVersion, plural, isCustom: false };
}

function custom(apiVersion: string): readonly Resource[] {
  return [
    one(apiVersion, 'Tier', 'tiers'),
    one(apiVersion, 'ClusterGroup', 'clustergroups'),
    one(apiVersion, 'ClusterNetworkPolicy', 'clusternetworkpolicies'),
  ];
}

function one(apiVersion: string, kind: string, plural: string): Resource {
  const [group] = apiVersion.split('/');
  return { name: `${plural}.${group}`, kind, apiVersion, plural, isCustom: true };
}

/** `/api/v1`, `/apis/nodewall.io/v1alpha1`. */
export function groupVersionPath({ apiVersion }: Resource): string {
  return apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
}

/** The path with its query; adds the resource's field selector. */
export function resourcePath(resource: Resource, query: Readonly<Record<string, string>>): string {
  const { fieldSelector, plural } = resource;
  const all = fieldSelector === undefined ? query : { ...query, fieldSelector };
  const parameters = new URLSearchParams(all).toString();
  return `${groupVersionPath(resource)}/${plural}${parameters === '' ? '' : `?${parameters}`}`;
}
