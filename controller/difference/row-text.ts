import { type AddressSet, type Compiled, LAST_LINK_GROUP } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { NodeGroup, Row } from '../../apis/difference/row.ts';
import { decidedText } from '../../apis/explanation-text.ts';
import { ipProtocolText } from '../../apis/ip-protocols.ts';
import type { ClusterObjects, Direction } from '../../apis/objects.ts';
import { formatCidr, parseAddress } from '../../lib/net/address.ts';
import { complement, type Range, toCidrs } from '../../lib/net/interval.ts';
import { formatMembers, memberTotal } from '../../lib/net/member-set.ts';
import { memo } from '../../lib/sharing/memo.ts';
import { changeKey, type WideChange } from './cluster-difference.ts';

/** A state as it would be enforced. */
export interface DiffSide {
  readonly objects: Pick<ClusterObjects, 'nodes' | 'pods'>;
  readonly compiled: Compiled;
}

interface RowNamesOptions {
  readonly config: Config;
  readonly before: DiffSide;
  readonly after: DiffSide;
}

/** Items that a cell has at most. */
const MOST_PEERS = 4;
const MOST_PORTS = 8;

/** Direction, traffic, flows, peers, and the verdicts with their rules. */
export function cells(row: Row, names: Names): string[] {
  return [
    row.direction,
    row.traffic,
    [flowsText(row), ...names.groups(row)].join(' '),
    names.peers(row),
    decidedText(row.before, row.ruleBefore),
    decidedText(row.after, row.ruleAfter),
  ];
}

/** A change for people: its cells, and those of each set of flows that a wide change leaves out. */
interface ShownChange {
  readonly cells: readonly string[];
  readonly exceptions: readonly (readonly string[])[];
}

const EVERYTHING: Readonly<Record<Direction, string>> = {
  ingress: 'everything but exempt and spoofed packets',
  egress: 'everything but exempt packets',
};

/** The changes of a group; a wide one is one of them, in place of its rows. */
export function shownChanges(
  { changes }: NodeGroup,
  wide: readonly WideChange[],
  names: Names,
): ShownChange[] {
  const wideOf = new Map(wide.map((one) => [changeKey(one.change), one]));
  const forged = new Set<string>();
  return changes.flatMap((row): ShownChange[] => {
    if (isOfAntiSpoofing(row)) {
      // The same packets are dropped on their way to a NodePort.
      const [, , , peers = '', ...verdicts] = cells(row, names);
      const key = [peers, ...verdicts].join();
      if (forged.has(key)) return [];
      forged.add(key);
      return [{ cells: [row.direction, 'Host', FORGED, peers, ...verdicts], exceptions: [] }];
    }
    const one = wideOf.get(changeKey(row));
    const [direction = '', traffic = '', , , ...verdicts] = cells(row, names);
    if (one === undefined) return [{ cells: cells(row, names), exceptions: [] }];
    if (one.change !== row) return [];
    return [
      {
        cells: [direction, traffic, EVERYTHING[row.direction], 'any', ...verdicts],
        exceptions: one.exceptions.map((exception) => cells(exception, names)),
      },
    ];
  });
}

/** Without a rule nothing else drops packets. */
function isOfAntiSpoofing({ before, ruleBefore, after, ruleAfter }: Row): boolean {
  const verdicts = [before, after].sort();
  return ruleBefore === null && ruleAfter === null && verdicts.join() === 'Allow,Drop';
}

const FORGED = "packets of pods with a Node's address";

function flowsText({ protocols, ports, sourcePorts, icmp, igmp, destinations }: Row): string {
  const named = protocols?.map(([first, last]) => {
    return first === last ? ipProtocolText(first) : `protocols ${first}-${last}`;
  });
  const words = [
    named?.join(', ') ?? 'every protocol',
    ...(ports === null ? [] : [`port ${rangesText(ports)}`]),
    ...(sourcePorts === null ? [] : [`source port ${rangesText(sourcePorts)}`]),
    ...(icmp === null ? [] : [`type ${rangesText(icmp.types)}`]),
    ...(icmp?.codes == null ? [] : [`code ${rangesText(icmp.codes)}`]),
    ...(igmp?.types == null ? [] : [`type ${rangesText(igmp.types)}`]),
    ...(igmp?.groups == null ? [] : [`group ${shortened(igmp.groups.map(rangeText), MOST_PEERS)}`]),
    ...(destinations == null ? [] : [`to ${shortened(destinations.map(rangeText), MOST_PEERS)}`]),
  ];
  return words.join(' ');
}

function rangesText(ranges: readonly Range[]): string {
  return shortened(
    ranges.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)),
    MOST_PORTS,
  );
}

function shortened(items: readonly string[], most: number): string {
  const rest = items.length - most;
  return rest > 0 ? `${items.slice(0, most).join(', ')} and ${rest} more` : items.join(', ');
}

function rangeText(range: string): string {
  const [first = '', last] = range.split('-');
  return first === last ? first : range;
}

/**
 * Addresses by what is known of them in the manifests, link groups as the configuration names them.
 */
export class Names {
  readonly #groups: ReadonlyMap<number, string>;
  readonly #options: RowNamesOptions;
  /** By address; made when the first is asked for. */
  #owners: ReadonlyMap<string, string> | null = null;
  /** By the number of members: of most numbers no row asks. */
  readonly #sets: ReadonlyMap<number, readonly AddressSet[]>;
  readonly #descriptions = memo((sets: readonly AddressSet[]): ReadonlyMap<string, string> => {
    return new Map(sets.map(({ members, description }) => [formatMembers(members).join(), description]));
  });

  constructor(options: RowNamesOptions) {
    const { before, after, config } = options;
    this.#options = options;
    this.#groups = new Map(Object.entries(config.interfaceGroups).map(([name, number]) => [number, name]));
    const sets = [after, before].flatMap(({ compiled }) => [...compiled.addressSets.values()]);
    this.#sets = Map.groupBy(sets, ({ members }) => memberTotal(members));
  }

  /** Names the groups: where these are almost all, the few that are missing. */
  groups({ interfaceGroups }: Row): string[] {
    if (interfaceGroups === null) return [];
    const others = complement(interfaceGroups, LAST_LINK_GROUP);
    const few = others.length < interfaceGroups.length ? others : interfaceGroups;
    const names = few.map(([first, last]) =>
      first === last ? (this.#groups.get(first) ?? `${first}`) : `${first}-${last}`,
    );
    return [`${few === others ? 'not by' : 'by'} interface group ${shortened(names, MOST_PORTS)}`];
  }

  peers({ peers }: Row): string {
    if (peers === null) return 'any';
    const blocks = peers.flatMap(blocksOf);
    const sets = this.#sets.get(blocks.length);
    const description = sets && this.#descriptions(sets).get(blocks.join());
    if (description !== undefined) return description;
    return shortened(
      blocks.map((block, i) => (i < MOST_PEERS ? this.#owned(block) : block)),
      MOST_PEERS,
    );
  }

  #owned(block: string): string {
    const { before, after } = this.#options;
    this.#owners ??= new Map([after, before].flatMap(({ objects }) => [...ownersOf(objects)]));
    const owner = this.#owners.get(block);
    return owner === undefined ? block : `${block} (${owner})`;
  }
}

/** Addresses, and which Node or Pod has them. */
export function* ownersOf({ nodes, pods }: DiffSide['objects']): Iterable<readonly [string, string]> {
  for (const { addresses, namespace, name } of pods)
    for (const ip of addresses) yield [ip, `Pod ${namespace}/${name}`];
  for (const { addresses, name } of nodes) for (const address of addresses) yield [address, `Node ${name}`];
}

/** The fewest CIDRs; a range that takes many stays a range. */
function blocksOf(range: string): string[] {
  const [first, last] = range.split('-').map((text) => parseAddress(text));
  if (first == null || last == null) return [range];
  const cidrs = toCidrs(first.family, { first: first.value, last: last.value });
  return cidrs.length > 2 ? [rangeText(range)] : cidrs.map(formatCidr);
}
