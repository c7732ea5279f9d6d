import { asFields, asList } from '../../apis/schema/json-schema.ts';
import { hasError, show } from '../../apis/validate/problem.ts';
import { type OwnedRange, ownedRange, RangeIndex } from '../../controller/egress/check/ranges.ts';
import type { TheirPolicy } from './spidernet-policy.ts';
import { presentItems } from './spidernet-schema.ts';
import type { Given } from './translation.ts';

/** The networks of an EgressClusterInfo, by the field of the configuration that has them. */
function insideOf({ raw }: Given): ReadonlyMap<string, readonly string[]> {
  const status = asFields(raw.status) ?? {};
  // In 2023.
  const earlier = asFields(status.egressIgnoreCIDR) ?? {};
  const of = (field: string): string[] => [...networks(status[field], 0), ...networks(earlier[field], 0)];
  const added = networks(asFields(raw.spec)?.extraCidr, 0);
  return new Map(
    Object.entries({
      inside: [...new Set([...added, ...of('extraCidr')])],
      serviceCIDRs: of('clusterIP'),
      podCIDRs: of('podCIDR'),
      nodes: of('nodeIP'),
    }),
  );
}

/** A list, or lists by family, or by node or pool and by family. */
function networks(value: unknown, depth: number): string[] {
  if (Array.isArray(value))
    return presentItems(value).flatMap(([, text]) => (ownedRange(text, '').length === 0 ? [] : [text]));
  if (depth === 2) return [];
  return Object.values(asFields(value) ?? {}).flatMap((item) => networks(item, depth + 1));
}

/** Names the part of the configuration that has the networks of an EgressClusterInfo. */
export function sayInside(given: Given): void {
  for (const [index, text] of presentItems(asList(asFields(given.raw.spec)?.extraCidr))) {
    if (ownedRange(text, '').length > 0) continue;
    given.found.warning(
      ['spec', 'extraCidr', index],
      `${show(text)} is not an address or a CIDR; it is left out`,
    );
  }
  const fields = [...insideOf(given)].filter(([field, list]) => field !== 'nodes' && list.length > 0);
  const text = fields.map(([field, list]) => `${field}: [${list.map(toCidr).join(', ')}]`).join(', ');
  const message =
    'has no equal among objects: networks inside the cluster are in the configuration of controllers and agents';
  given.found.warning([], text === '' ? message : `${message}: egress: {${text}}`);
}

function toCidr(text: string): string {
  return text.includes('/') ? text : `${text}/${text.includes(':') ? 128 : 32}`;
}

/** egressgateway steers connections to destinations inside the cluster; nodewall never does. */
export function warnOfInside(policies: readonly TheirPolicy[], own: readonly Given[]): void {
  const infos = own.filter(({ raw, found }) => raw.kind === 'EgressClusterInfo' && !hasError(found.problems));
  const ranges = infos.flatMap((given): OwnedRange[] =>
    [...insideOf(given).values()].flat().flatMap((text) => ownedRange(text, text)),
  );
  if (ranges.length === 0) return;
  const index = new RangeIndex(ranges);
  for (const { given, to } of policies) {
    for (const { cidr, path } of to) {
      const [one] = ownedRange(cidr, '');
      const other = one === undefined ? undefined : index.overlapping(one.family, one.range);
      if (other === undefined) continue;
      const message = `${cidr} overlaps ${other.owner} of EgressClusterInfo: nothing inside the cluster is steered here, but egressgateway did it`;
      given.found.warning(path, message);
    }
  }
}
