import type { ClusterNetworkPolicy } from '../../apis/objects.ts';
import type { LeftOutEndpoints } from '../compile/service-set.ts';
import { formatName } from '../index/service-index.ts';
import { placeOf } from './risks.ts';

const MOST_SHOWN = 3;

/** Warns about Services of toServices with endpoints that do not count, as no pod has them. */
export function leftOutEndpointWarnings(
  { spec: { egress = [] } }: ClusterNetworkPolicy,
  leftOut: LeftOutEndpoints,
): string[] {
  return egress.flatMap(({ toServices = [] }, rule) =>
    toServices.flatMap((service, at) => {
      const name = formatName(service);
      const addresses = leftOut.get(name);
      if (addresses === undefined) return [];
      const more = addresses.length > MOST_SHOWN ? ` and ${addresses.length - MOST_SHOWN} more` : '';
      return [
        `${placeOf('egress', rule)}.toServices[${at}]: no pod of the namespace has these endpoints of ${name}, which are left ` +
          `out: ${addresses.slice(0, MOST_SHOWN).join(', ')}${more}; if the Service is right, list it in endpointsWithoutPods of the configuration`,
      ];
    }),
  );
}
