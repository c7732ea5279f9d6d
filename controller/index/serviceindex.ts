import type { ClusterObjects, EndpointSlice, NamespacedName, Service } from '../../apis/objects.ts';

/** Services and their EndpointSlices by name, over one state of the objects. */
export interface ServiceIndex {
  service(name: NamespacedName): Service | undefined;
  endpointSlices(service: NamespacedName): readonly EndpointSlice[];
}

/** Built on first use: most policies name no Service. */
export function serviceIndex({
  services,
  endpointSlices,
}: Pick<ClusterObjects, 'services' | 'endpointSlices'>): ServiceIndex {
  let byName: ReadonlyMap<string, Service> | null = null;
  let byService: ReadonlyMap<string, readonly EndpointSlice[]> | null = null;
  return {
    service(name) {
      byName ??= new Map(services.map((service) => [formatName(service), service]));
      return byName.get(formatName(name));
    },
    endpointSlices(service) {
      byService ??= Map.groupBy(endpointSlices, (slice) =>
        formatName({ namespace: slice.namespace, name: slice.service }),
      );
      return byService.get(formatName(service)) ?? [];
    },
  };
}

/** Neither part holds a slash, so the pair is told apart. */
export function formatName({ namespace, name }: NamespacedName): string {
  return `${namespace}/${name}`;
}
