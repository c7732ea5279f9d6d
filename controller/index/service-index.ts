import type { ClusterObjects, EndpointSlice, NamespacedName, Service } from '../../apis/objects.ts';
import { listChange } from '../../lib/sharing/lists.ts';
import { type KeyIndex, keyIndex } from './key-index.ts';

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
