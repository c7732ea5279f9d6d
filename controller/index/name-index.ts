import type {
  ApiGroup,
  ClusterGroup,
  ClusterObjects,
  EndpointSlice,
  NamespacedName,
  Service,
} from '../../apis/objects.ts';
import { listChange } from '../../lib/sharing/lists.ts';
import { type KeyIndex, keyIndex } from './key-index.ts';

/** Finds ClusterGroups by the name that a policy or another group uses. */
export interface GroupIndex {
  /** Prefers a group in the API group of the object that names it, then the other API group. */
  find(name: string, apiGroup: ApiGroup): ClusterGroup | undefined;
}

export function groupIndex(groups: readonly ClusterGroup[]): GroupIndex {
  const byName = Map.groupBy(groups, ({ name }) => name);
  return {
    find(name, apiGroup) {
      const named = byName.get(name);
      return named?.find((group) => group.apiGroup === apiGroup) ?? named?.[0];
    },
  };
}

/**
 * A group and its childGroups, in that order. Children are looked up in the group's own API group
 * first, so that a group means the same whichever object names it. One level only: children of a
 * child are ignored. Throws if a name doesn't exist, which validation should have rejected.
 */
export function groupFamily(
  index: GroupIndex,
  name: string,
  apiGroup: ApiGroup,
): readonly [ClusterGroup, ...ClusterGroup[]] {
  const group = requireGroup(index, name, apiGroup);
  const children = group.spec.childGroups ?? [];
  return [group, ...children.map((child) => requireGroup(index, child, group.apiGroup))];
}

/** The same, without those that do not exist: a group may be created after what names it. */
export function knownFamily(index: GroupIndex, name: string, apiGroup: ApiGroup): readonly ClusterGroup[] {
  const group = index.find(name, apiGroup);
  const children = group?.spec.childGroups ?? [];
  return [group, ...children.map((child) => index.find(child, group?.apiGroup ?? apiGroup))].filter(
    (one) => one !== undefined,
  );
}

function requireGroup(index: GroupIndex, name: string, apiGroup: ApiGroup): ClusterGroup {
  const group = index.find(name, apiGroup);
  if (group === undefined) throw new Error(`there is no ClusterGroup ${name}`);
  return group;
}

type Indexed = Pick<ClusterObjects, 'services' | 'endpointSlices'>;

/** Services and their EndpointSlices by name, over successive states of the objects. */
export interface ServiceIndex {
  service(name: NamespacedName): Service | undefined;
  endpointSlices(service: NamespacedName): Iterable<EndpointSlice>;
  /**
   * Advances to another state. Returns the names (as formatName writes them) of changed Services;
   * none as long as no Service has been looked up.
   */
  advance(objects: Indexed): ReadonlySet<string>;
}

/** Built on first use, because most policies name no Service. */
export function serviceIndex(start: Indexed): ServiceIndex {
  let objects = start;
  let byName: Map<string, Service> | null = null;
  let slices: KeyIndex<EndpointSlice> | null = null;
  return {
    service(name) {
      byName ??= new Map(objects.services.map((service) => [formatName(service), service]));
      return byName.get(formatName(name));
    },
    endpointSlices(service) {
      slices ??= keyIndex(objects.endpointSlices, (slice) => [serviceOf(slice)]);
      return slices.get(formatName(service));
    },
    advance(next) {
      const changed = new Set<string>();
      if (byName !== null && next.services !== objects.services) {
        const { removed, added } = listChange(objects.services, next.services);
        for (const service of removed) byName.delete(formatName(service));
        for (const service of added) byName.set(formatName(service), service);
        for (const service of [...removed, ...added]) changed.add(formatName(service));
      }
      if (slices !== null && next.endpointSlices !== objects.endpointSlices) {
        const change = listChange(objects.endpointSlices, next.endpointSlices);
        slices.change(change);
        for (const slice of [...change.removed, ...change.added]) changed.add(serviceOf(slice));
      }
      objects = next;
      return changed;
    },
  };
}

function serviceOf({ namespace, service }: EndpointSlice): string {
  return formatName({ namespace, name: service });
}

/** `NAMESPACE/NAME`: neither part contains a slash, so the result is unambiguous. */
export function formatName({ namespace, name }: NamespacedName): string {
  return `${namespace}/${name}`;
}
