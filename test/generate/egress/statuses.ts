import fc from 'fast-check';
import { formatAddress } from '../../oracle/address.ts';
import { parseRange } from '../../oracle/egress/egress-objects.ts';
import { selects } from '../../oracle/member.ts';
import type { GatewayManifest } from './gateway.ts';
import type { NodeManifest } from './members.ts';
import type { AddressSpec, PolicyManifest } from './policy.ts';

/** What statuses are made by: numbers, of which the next decides the next question. */
type Dice = () => number;

/** Gateways and policies with statuses, here and there, and with Fixed addresses of pools. */
export function withStatuses(
  gateways: readonly GatewayManifest[],
  policies: readonly PolicyManifest[],
  nodes: readonly NodeManifest[],
): fc.Arbitrary<{ gateways: GatewayManifest[]; policies: PolicyManifest[] }> {
  return fc.array(fc.nat({ max: 99 }), { minLength: 120, maxLength: 120 }).map((numbers) => {
    let next = 0;
    const dice = () => numbers[next++ % numbers.length] ?? 0;
    const placed = policies.map((policy) => withFixed(policy, poolOf(policy, gateways)));
    // Now and then a cluster whose controller has not begun.
    if (dice() < 25) return { gateways: [...gateways], policies: placed };
    const rows = placed.map((policy) => withAddresses(policy, placed, gateways, dice));
    return { gateways: gateways.map((gateway) => withSlots(gateway, rows, nodes, dice)), policies: rows };
  });
}

/** Some addresses of each range of the gateway, by family; the place 9 is outside all pools. */
function placesOf(gateway: GatewayManifest | undefined, family: 4 | 6): string[] {
  const texts = (gateway?.spec.addresses?.pools ?? []).flatMap(({ ranges }) => ranges);
  const ranges = texts.map(parseRange).filter((range) => range.family === family);
  const found = ranges.flatMap(({ first, last }) => {
    const values = [first, first + 1n, first + 2n, last].filter((value) => value <= last);
    return [...new Set(values)].map((value) => formatAddress({ family, value }));
  });
  return found.slice(0, 9);
}

function poolOf({ spec }: PolicyManifest, gateways: readonly GatewayManifest[]): GatewayManifest | undefined {
  return gateways.find(({ metadata, spec: own }) =>
    spec.gateway === undefined ? own.default === true : metadata.name === spec.gateway,
  );
}

function withFixed(policy: PolicyManifest, gateway: GatewayManifest | undefined): PolicyManifest {
  const { address } = policy.spec;
  if (address?.allocation !== 'Fixed') return policy;
  const at = (place: string | undefined, family: 4 | 6, outside: string): string | undefined => {
    if (place === undefined) return undefined;
    const places = placesOf(gateway, family);
    return place === '9' || places.length === 0 ? outside : places[Number(place) % places.length];
  };
  const ipv4 = at(address.ipv4, 4, '203.0.113.255');
  const ipv6 = at(address.ipv6, 6, '2001:db8:e::ffff:1');
  const fixed: AddressSpec = {
    allocation: 'Fixed',
    ...(ipv4 === undefined ? {} : { ipv4 }),
    ...(ipv6 === undefined ? {} : { ipv6 }),
  };
  return { ...policy, spec: { ...policy.spec, address: fixed } };
}

/** As a controller would leave it, mostly: Shared one address, Dedicated each its own. */
function withAddresses(
  policy: PolicyManifest,
  all: readonly PolicyManifest[],
  gateways: readonly GatewayManifest[],
  dice: Dice,
): PolicyManifest {
  const gateway = poolOf(policy, gateways);
  const { address, mode } = policy.spec;
  const isSteered = mode !== 'Audit' && (policy.spec.action ?? 'Gateway') === 'Gateway';
  if (gateway === undefined || !isSteered || dice() < 30) return policy;
  const { allocation = 'Shared', count = 1 } = address ?? {};
  const isOdd = dice() < 8;
  const oddPlace = dice();
  const addresses = ([4, 6] as const).flatMap((family) => {
    const places = placesOf(gateway, family);
    if (isOdd) return [places[oddPlace % 9] ?? (family === 4 ? '198.51.100.200' : '2001:db8:a::200')];
    if (allocation === 'Fixed') {
      const fixed = family === 4 ? address?.ipv4 : address?.ipv6;
      return fixed !== undefined && places.includes(fixed) ? [fixed] : [];
    }
    const free = places.filter((place) => !all.some((other) => isFixedAt(other, place)));
    if (allocation === 'Shared') return free.slice(0, 1);
    const index = all.filter((other) => other.spec.address?.allocation === 'Dedicated').indexOf(policy);
    return free.slice(1 + index * 3, 1 + index * 3 + count);
  });
  return { ...policy, status: { addresses } };
}

function isFixedAt({ spec }: PolicyManifest, place: string): boolean {
  return spec.address?.ipv4 === place || spec.address?.ipv6 === place;
}

function withSlots(
  gateway: GatewayManifest,
  policies: readonly PolicyManifest[],
  nodes: readonly NodeManifest[],
  dice: Dice,
): GatewayManifest {
  if (dice() < 20) return gateway;
  const candidates = nodes
    .filter(({ metadata }) => selects(gateway.spec.nodeSelector, metadata.labels ?? {}))
    .map(({ metadata }) => metadata.name);
  const spoken = nodes.map(({ metadata }) => metadata.name).filter(() => dice() < 80);
  const places = ([4, 6] as const).flatMap((family) => placesOf(gateway, family));
  const held = new Set(policies.flatMap(({ status }) => status?.addresses ?? []));
  const slotted = places.filter((place) => (held.has(place) ? dice() < 90 : dice() < 30));
  const count = places.length === 0 ? dice() % 2 : 1 + (dice() % 4);
  const slots = Array.from({ length: count }, (_, index) => {
    const owner = dice();
    const strangers = nodes.map(({ metadata }) => metadata.name);
    const from = owner < 6 ? [''] : owner < 12 ? strangers : candidates;
    return {
      name: `${gateway.metadata.name}-${index}`,
      node: from[dice() % Math.max(1, from.length)] ?? '',
      epoch: 1 + (dice() % 3),
      addresses: slotted.filter((_place, at) => at % count === index),
    };
  });
  const status = { nodes: spoken.map((name) => ({ name, ready: dice() < 75 })), slots };
  return { ...gateway, status };
}
