import { isDeepStrictEqual } from 'node:util';
import type { PortRange, Service } from '../../apis/compiled.ts';
import type { IPBlock, LabelSelector, LabelSelectorRequirement } from '../../apis/objects.ts';
import { type Cidr, parseCidr } from '../../lib/net/address.ts';
import { type Interval, subtract, toInterval, union } from '../../lib/net/interval.ts';
import type { DirectPeer } from '../compile/peers.ts';
import { canonicalRequirements } from '../index/selector.ts';

/**
 * Whether one selector covers another: decided from the text alone, for any objects, so that a
 * positive result stays true. In this file addresses and ports are compared exactly; a selector
 * covers another if each of its requirements follows from one of the other's.
 */
export function selectorCovers(wide: LabelSelector, narrow: LabelSelector): boolean {
  const given = canonicalRequirements(narrow);
  return canonicalRequirements(wide).every((wanted) => given.some((known) => implies(known, wanted)));
}

function implies(known: LabelSelectorRequirement, wanted: LabelSelectorRequirement): boolean {
  if (known.key !== wanted.key) return false;
  const has = new Set(known.values);
  const asked = wanted.values ?? [];
  switch (wanted.operator) {
    case 'In':
      return known.operator === 'In' && [...has].every((value) => asked.includes(value));
    case 'NotIn':
      if (known.operator === 'DoesNotExist') return true;
      if (known.operator === 'In') return asked.every((value) => !has.has(value));
      return known.operator === 'NotIn' && asked.every((value) => has.has(value));
    case 'Exists':
      return known.operator === 'Exists' || known.operator === 'In';
    case 'DoesNotExist':
      return known.operator === 'DoesNotExist';
    default:
      return wanted.operator satisfies never;
  }
}

/** Each narrow selector is covered by one wide selector; the selectors of a list are OR-ed. */
export function selectorsCover(wide: readonly LabelSelector[], narrow: readonly LabelSelector[]): boolean {
  return narrow.every((one) => wide.some((other) => selectorCovers(other, one)));
}

/** The peers of a rule; null stands for any peer. */
export type Peers = readonly DirectPeer[] | null;

export function peersCover(wide: Peers, narrow: Peers): boolean {
  if (wide === null) return true;
  const blocks = { 4: blocksOf(wide, 4), 6: blocksOf(wide, 6) };
  if (isWhole(blocks[4], 32) && isWhole(blocks[6], 128)) return true;
  if (narrow === null) return false;
  const free = ([4, 6] as const).every((family) => {
    return subtract(blocksOf(narrow, family), blocks[family]).length === 0;
  });
  return free && narrow.every((peer) => 'ipBlock' in peer || wide.some(covers(peer)));
}

/** The addresses of one family that the ipBlocks cover. */
function blocksOf(peers: readonly DirectPeer[], family: 4 | 6): Interval[] {
  return union(peers.flatMap((peer) => ('ipBlock' in peer ? blockOf(peer.ipBlock, family) : [])));
}

function blockOf({ cidr, except = [] }: IPBlock, family: 4 | 6): Interval[] {
  const holes = union(except.flatMap((text) => cidrsOf(text, family)).map(toInterval));
  return subtract(cidrsOf(cidr, family).map(toInterval), holes);
}

function cidrsOf(text: string, family: 4 | 6): Cidr[] {
  const cidr = parseCidr(text)?.cidr;
  return cidr?.family === family ? [cidr] : [];
}

function isWhole([only, ...others]: readonly Interval[], bits: number): boolean {
  return others.length === 0 && only?.first === 0n && only.last === (1n << BigInt(bits)) - 1n;
}

const covers =
  (narrow: DirectPeer) =>
  (wide: DirectPeer): boolean => {
    if ('ipBlock' in wide || 'ipBlock' in narrow) return false;
    if ('nodeSelector' in wide) {
      return 'nodeSelector' in narrow && selectorCovers(wide.nodeSelector, narrow.nodeSelector);
    }
    if ('fqdn' in wide) return 'fqdn' in narrow && nameCovers(wide.fqdn, narrow.fqdn);
    if ('serviceAccount' in wide || 'serviceReference' in wide || 'interfaceGroup' in wide) {
      return isDeepStrictEqual(wide, narrow);
    }
    const { podSelector = {}, namespaceSelector = {} } = wide;
    // The labels of an account's or a Service's pods are not known here.
    if ('serviceAccount' in narrow || 'serviceReference' in narrow) {
      return selectorCovers(podSelector, {}) && selectorCovers(namespaceSelector, {});
    }
    if ('nodeSelector' in narrow || 'fqdn' in narrow || 'interfaceGroup' in narrow) return false;
    return (
      selectorCovers(podSelector, narrow.podSelector ?? {}) &&
      selectorCovers(namespaceSelector, narrow.namespaceSelector ?? {})
    );
  };

/** `*.example.com` stands for one or more leading labels. */
function nameCovers(wide: string, narrow: string): boolean {
  return wide === narrow || (wide.startsWith('*.') && narrow.endsWith(wide.slice(1)));
}

/**
 * Whether all narrow services are covered. They are those of `toServices` in compile: an empty list
 * is all traffic.
 */
export function servicesCover(wide: readonly Service[], narrow: readonly Service[]): boolean {
  if (wide.length === 0) return true;
  return narrow.length > 0 && narrow.every((service) => serviceCovered(wide, service));
}

function serviceCovered(wide: readonly Service[], narrow: Service): boolean {
  const alike = wide.filter(({ protocol }) => protocol === narrow.protocol);
  switch (narrow.protocol) {
    case 'tcp':
    case 'udp':
    case 'sctp': {
      let rest = [boxOf(narrow)];
      for (const service of alike) if (isPorts(service)) rest = rest.flatMap(without(boxOf(service)));
      return rest.length === 0;
    }
    case 'icmp':
    case 'icmpv6':
      return alike.some(
        (service) =>
          (service.protocol === 'icmp' || service.protocol === 'icmpv6') &&
          (service.type === undefined || service.type === narrow.type) &&
          (service.code === undefined || service.code === narrow.code),
      );
    case 'igmp':
      return alike.some(
        (service) =>
          service.protocol === 'igmp' &&
          (service.type === undefined || service.type === narrow.type) &&
          (service.group === undefined || service.group === narrow.group),
      );
    default:
      return narrow satisfies never;
  }
}

type Ports = Extract<Service, { readonly protocol: 'tcp' | 'udp' | 'sctp' }>;

function isPorts(service: Service): service is Ports {
  return service.protocol === 'tcp' || service.protocol === 'udp' || service.protocol === 'sctp';
}

/** Ranges of destination ports and of source ports. */
type Box = readonly [PortRange, PortRange];

function boxOf({ ports = [0, 65_535], sourcePorts = [0, 65_535] }: Ports): Box {
  return [ports, sourcePorts];
}

/** The rest of a box without the hole: at most four boxes. */
const without =
  ([holePorts, holeSources]: Box) =>
  ([ports, sources]: Box): Box[] => {
    const inPorts = common(ports, holePorts);
    const inSources = common(sources, holeSources);
    if (inPorts === null || inSources === null) return [[ports, sources]];
    return [
      ...outside(ports, inPorts).map((range): Box => [range, sources]),
      ...outside(sources, inSources).map((range): Box => [inPorts, range]),
    ];
  };

function common([a, b]: PortRange, [c, d]: PortRange): PortRange | null {
  const first = Math.max(a, c);
  const last = Math.min(b, d);
  return first <= last ? [first, last] : null;
}

function outside([first, last]: PortRange, [from, to]: PortRange): PortRange[] {
  const below: PortRange[] = first < from ? [[first, from - 1]] : [];
  return to < last ? [...below, [to + 1, last]] : below;
}
