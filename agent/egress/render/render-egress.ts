import type { Config } from '../../../apis/config.ts';
import type { NodeEgress } from '../../../apis/egress/node-egress.ts';
import { FAMILIES, type Family, formatCidr, parseAddress } from '../../../lib/net/address.ts';
import { type MemberSet, packAddress, toMemberSet } from '../../../lib/net/member-set.ts';
import { sameItems } from '../../../lib/sharing/lists.ts';
import { memo } from '../../../lib/sharing/memo.ts';
import type { ExtraRules } from '../../extension/extension.ts';
import { type NamedSet, type NftRule, plainChain, plainRule } from '../../render/ruleset.ts';
import { type MapEntry, packAddressMac, toVerdictMap, type VerdictMap } from '../../render/verdict-map.ts';
import { withFormer } from './answer-routes.ts';
import { ArrivalRenderer, gotoChain } from './arrivals.ts';
import { ClassRenderer, classChain, rangeMap } from './classes.ts';
import { dropChains, dropRule } from './counted.ts';
import { frameChains, toNodeRules } from './frame.ts';
import { sealedChains, takeChains } from './gateway.ts';
import { markChains } from './mark-chains.ts';
import { linkLocal, outerAddress } from './tunnel.ts';
import { EGRESS_NAMES, inSet, tunnelMatches } from './tunnel-rules.ts';

type Part = Pick<ExtraRules, 'chains' | 'sets' | 'maps'>;

const NO_EGRESS: ExtraRules = {
  chains: [],
  sets: [],
  maps: [],
  toNode: [],
  exempt: { ingress: [], egress: [] },
};

const SOURCES = 'egress-sources';
const knownSet = (family: Family): string => `egress-known-v${family}`;
const sourcesMap = (family: Family): string => `egress-sources-v${family}`;

/**
 * Stage 5 for egress gateways: renders what a node does into additions to the table. Equal values
 * give equal bytes. For a sequence of values it makes only those classes and outcomes again that
 * are other objects than before.
 */
export function egressRenderer(config: Config): (egress: NodeEgress | null) => ExtraRules {
  const renderer = new ClassRenderer();
  const arrivals = new ArrivalRenderer();
  const endsOf = memo(tunnelEnds);
  const outer = keptWhile(outerEnds);
  const drops = dropChains();
  const frame = keptWhile(frameChains);
  const sources = keptWhile(sourceRules);
  const exempt = { ingress: tunnelMatches('ingress', config), egress: tunnelMatches('egress', config) };
  let last = NO_EGRESS;
  return (egress) => {
    if (egress === null) return NO_EGRESS;
    const { classes, outcomes } = renderer.render(egress.classes.values(), egress.outcomes.values());
    const judges = egress.classes.size > 0 || egress.unknownPods === 'Hold';
    const { sources: pods, subnets, unknownPods, peers, answers } = egress;
    const hasClasses = egress.classes.size > 0;
    const source = judges ? sources({ sources: pods, subnets, unknownPods, hasClasses }) : NO_EGRESS;
    const served = arrivals.render(egress);
    const marks = markChains(egress);
    const takes = [...egress.takes].flatMap(([number, take]) => [
      ...takeChains(number, take),
      ...sealedChains(number, take),
    ]);
    const audits = new Map(outcomes.flatMap((one) => one.audits.map((audit) => [audit.name, audit])));
    const hasTunnel = egress.peers.size > 0 || egress.takes.size > 0 || hasFloating(egress);
    const chains = [
      ...frame({
        config,
        judges,
        hasTunnel,
        takes: egress.takes.size > 0,
        hasFloating: hasFloating(egress),
      }),
      ...source.chains,
      ...byName(classes.map(({ chain }) => chain)),
      ...byName([...audits.values()]),
      ...byName(unique(outcomes.map(({ chain }) => chain))),
      ...marks.chains,
      ...served.chains,
      ...takes,
      ...drops,
    ];
    const maps = [
      ...[...source.maps, ...classes.flatMap((one) => one.maps), ...marks.maps, ...served.maps],
      ...outer({ peers, answers }),
    ];
    const sets = [...source.sets, endsOf(egress.peers), ...memberSets(egress)];
    last = {
      chains,
      sets: shared(byName(sets), last.sets, hasSameMembers),
      maps: shared(byName(unique(maps)), last.maps, hasSameEntries),
      toNode: toNodeRules(hasTunnel),
      exempt,
    };
    return last;
  };
}

/** A function that gives the same result again while the parts are the same. */
function keptWhile<P extends object, R>(of: (parts: P) => R): (parts: P) => R {
  let last: { readonly parts: P; readonly result: R } | null = null;
  return (parts) => {
    if (last === null || !sameItems(Object.values(last.parts), Object.values(parts)))
      last = { parts, result: of(parts) };
    return last.result;
  };
}

/** Equal items are the previous objects: stage 6 then need not compare them. */
function shared<T extends Named>(
  items: readonly T[],
  before: readonly T[],
  isSame: (a: T, b: T) => boolean,
): T[] {
  const known = new Map(before.map((item) => [item.name, item]));
  return items.map((item) => {
    const last = known.get(item.name);
    return last !== undefined && isSame(item, last) ? last : item;
  });
}

function hasSameMembers(a: NamedSet, b: NamedSet): boolean {
  if (a.members === b.members) return a.interval === b.interval;
  const prefixes = [a, b].map(({ members }) => members.prefixes.map(formatCidr).join());
  return (
    a.interval === b.interval &&
    prefixes[0] === prefixes[1] &&
    Buffer.compare(a.members.singles, b.members.singles) === 0
  );
}

function hasSameEntries(a: VerdictMap, b: VerdictMap): boolean {
  if (a === b) return true;
  const verdicts = [a, b].map((map) => map.verdicts.map(({ kind, chain }) => `${kind} ${chain}`).join());
  return (
    verdicts[0] === verdicts[1] &&
    Buffer.compare(a.keys, b.keys) === 0 &&
    sameItems([...a.targets], [...b.targets])
  );
}

function hasFloating({ floating: { v4, v6 } }: NodeEgress): boolean {
  return [v4, v6].some(({ singles, prefixes }) => singles.length > 0 || prefixes.length > 0);
}

interface SourceParts extends Pick<NodeEgress, 'sources' | 'subnets' | 'unknownPods'> {
  /** Whether a source has a class. */
  readonly hasClasses: boolean;
}

/** The rules that decide about the first packet of a connection that a local pod begins. */
function sourceRules(egress: SourceParts): Part {
  const subnets = FAMILIES.flatMap(
    (family) =>
      rangeMap(
        'egress-subnets',
        family,
        egress.subnets
          .filter((subnet) => subnet.family === family)
          .map((subnet) => ({ range: subnet.range, chain: classChain(subnet.class) })),
      ) ?? [],
  );
  const entries: Record<Family, MapEntry[]> = { 4: [], 6: [] };
  const known: string[] = [];
  for (const [text, id] of egress.sources) {
    const address = parseAddress(text);
    if (address === null) continue;
    if (id === null) known.push(text);
    else entries[address.family].push({ first: packAddress(address), verdict: gotoChain(classChain(id)) });
  }
  const maps = FAMILIES.map((family) =>
    toVerdictMap(
      { name: sourcesMap(family), key: 'address', family, interval: false, fixed: false },
      entries[family],
    ),
  );
  const members = toMemberSet([], known);
  return {
    chains: [
      plainChain(EGRESS_NAMES.choose, chooseRules(egress)),
      plainChain(EGRESS_NAMES.known, [
        // Another pod with its address.
        plainRule({ kind: 'return' }, { match: 'noRouteBack' }),
        plainRule({ kind: 'accept' }),
      ]),
      plainChain(SOURCES, [
        ...FAMILIES.map((family) =>
          plainRule({ kind: 'addressMap', family, field: 'saddr', map: sourcesMap(family) }),
        ),
        ...subnets.map((map) =>
          plainRule({ kind: 'addressMap', family: map.family ?? 4, field: 'saddr', map: map.name }),
        ),
        ...(egress.unknownPods === 'Hold' ? [dropRule('unknown-pod', null)] : []),
      ]),
    ],
    sets: setsOf(knownSet, members, 'pods that no egress policy selects', false),
    maps: [...maps, ...subnets],
  };
}

function chooseRules({ hasClasses }: SourceParts): NftRule[] {
  return [
    // A connection that the kernel knows keeps what it has got, answered or not.
    plainRule({ kind: 'return' }, { match: 'ctConfirmed' }),
    // Pods that no policy selects, first: nothing else is asked about them.
    ...FAMILIES.map((family) =>
      plainRule({ kind: 'jump', chain: EGRESS_NAMES.known }, inSet(family, 'saddr', knownSet(family))),
    ),
    plainRule({ kind: 'return' }, { match: 'local', field: 'daddr' }),
    ...FAMILIES.map((family) =>
      plainRule({ kind: 'return' }, inSet(family, 'daddr', EGRESS_NAMES.inside(family))),
    ),
    dropRule('unknown-pod', 'no address behind this interface', { match: 'noRouteBack' }),
    plainRule(gotoChain(SOURCES), { match: 'ctNew' }),
    // Neither new nor established: nothing would translate it.
    ...(hasClasses ? [dropRule('no-route', 'no connection tracking')] : []),
  ];
}

function tunnelEnds(peers: NodeEgress['peers']): NamedSet {
  const ends = [...peers.values()].map(({ mac }) => linkLocal(mac));
  return {
    name: EGRESS_NAMES.ends,
    family: 6,
    key: 'address',
    interval: false,
    comment: 'the other ends of the tunnel',
    members: toMemberSet([], ends).v6,
  };
}

/** The outer address and the MAC of each end. */
function outerEnds({ peers, answers }: Pick<NodeEgress, 'peers'> & { answers: NodeEgress['answers'] }) {
  const ends = [...withFormer(peers, answers).values()];
  const known = gotoChain(EGRESS_NAMES.knownOuter);
  return FAMILIES.map((family): VerdictMap => {
    const entries = ends.flatMap((end): [string, MapEntry][] => {
      const { mac } = end;
      const text = outerAddress(end);
      const address = parseAddress(text);
      if (address?.family !== family) return [];
      return [[`${text} ${mac}`, { first: packAddressMac(address, mac), verdict: known }]];
    });
    const declared = { name: EGRESS_NAMES.outerEnds(family), key: 'addressInnerMac', family } as const;
    return toVerdictMap({ ...declared, interval: false, fixed: false }, [...new Map(entries).values()]);
  });
}

function memberSets({ nodes, floating, inside }: NodeEgress): NamedSet[] {
  return [
    ...setsOf(EGRESS_NAMES.inside, inside, 'never steered', true),
    ...setsOf(
      EGRESS_NAMES.nodes,
      nodes,
      'addresses of Nodes',
      nodes.v4.prefixes.length + nodes.v6.prefixes.length > 0,
    ),
    ...setsOf(EGRESS_NAMES.floating, floating, 'addresses of the pools', true),
    ...setsOf(
      EGRESS_NAMES.live,
      toMemberSet([], []),
      'alive on this node, each while its lease lasts',
      false,
    ).map((set) => ({ ...set, timed: true as const })),
  ];
}

function setsOf(
  name: (family: Family) => string,
  { v4, v6 }: MemberSet,
  comment: string,
  interval: boolean,
): NamedSet[] {
  return FAMILIES.map((family) => ({
    name: name(family),
    family,
    key: 'address',
    interval,
    comment,
    members: family === 4 ? v4 : v6,
  }));
}

interface Named {
  readonly name: string;
}

function unique<T extends Named>(items: readonly T[]): T[] {
  return [...new Map(items.map((item) => [item.name, item])).values()];
}

function byName<T extends Named>(items: readonly T[]): T[] {
  return items.toSorted((a, b) => (a.name < b.name ? -1 : 1));
}
