import type { ClusterObject } from '../../../apis/objects.ts';

/** A resource of the API, as listed and watched. */
export interface Resource {
  /** `pods`, `clusternetworkpolicies.nodewall.io`: the name in notices and metrics. */
  readonly name: string;
  readonly kind: ClusterObject['kind'];
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

export const NODEWALL = custom('nodewall.io/v1alpha1');
export const ANTREA = custom('crd.antrea.io/v1beta1');

/** All that a controller watches to compile, in the order of a revision's position. */
export const WATCHED: readonly Resource[] = [...BUILT_IN, ...NODEWALL, ...ANTREA];

function builtIn<const K extends Resource['kind']>(kind: K, apiVersion: string, plural: string) {
  return { name: plural, kind, apiVersion, plural, isCustom: false };
}

function custom(apiVersion: string): readonly Resource[] {
  const [group] = apiVersion.split('/');
  const of = (kind: Resource['kind'], plural: string): Resource => {
    return { name: `${plural}.${group}`, kind, apiVersion, plural, isCustom: true };
  };
  return [
    of('Tier', 'tiers'),
    of('ClusterGroup', 'clustergroups'),
    of('ClusterNetworkPolicy', 'clusternetworkpolicies'),
  ];
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
