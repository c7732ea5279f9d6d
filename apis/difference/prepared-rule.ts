import { BASELINE_PRIORITY } from '../baseline.ts';
import type { CompiledRule, NodeState } from '../compiled.ts';
import type { Config } from '../config.ts';
import { sparesLocalPods } from '../exemptions.ts';
import { isSkippable } from '../failsafe.ts';
import { PROTOCOL_NUMBERS } from '../protocols.ts';
import { resolvedPeers } from '../resolved-peers.ts';
import { type Leaves, leafOf, type RuleListEntry } from './entry.ts';
import { type Box, boxOf } from './service-space.ts';
import type { SetTable } from './set-table.ts';

type Boxes = ReadonlyMap<number, readonly Box[]>;

/** A part of a rule that only peers in a set match. */
interface SetPart {
  readonly set: number;
  readonly boxes: Boxes;
}

/** A rule with its sets and outcome as numbers. */
export interface PreparedRule {
  readonly id: string;
  /** Rules with the same meaning have the same. */
  readonly meaning: string;
  readonly outcome: Omit<RuleListEntry, 'order' | 'boxes'>;
  readonly boxes: Boxes | null;
  readonly matchesAny: boolean;
  readonly groups: readonly number[];
  readonly sets: readonly number[];
  /** Services: addresses with their ports. */
  readonly parts: readonly SetPart[];
  /** Groups of outgoing IGMP: addresses that the peer must have besides. */
  readonly igmpGroups: readonly SetPart[];
}

/** Throws as `resolvedPeers` does. */
export function preparedRule(
  rule: CompiledRule,
  state: Pick<NodeState, 'addressSets' | 'serviceSets'>,
  config: Pick<Config, 'interfaceGroups'>,
  { table, leaves }: { readonly table: SetTable; readonly leaves: Leaves },
): PreparedRule {
  const { services, source, action, tierPriority } = rule;
  const peers = resolvedPeers(rule, state, config);
  const { direction } = source;
  const isOwnGroup = (service: (typeof services)[number]): boolean =>
    direction === 'egress' && service.protocol === 'igmp' && service.group !== undefined;
  const boxes =
    services.length === 0
      ? null
      : boxesOf(
          services.filter((one) => !isOwnGroup(one)),
          direction,
        );
  const igmpGroups = services.filter(isOwnGroup).flatMap((service): SetPart[] => {
    if (service.protocol !== 'igmp' || service.group === undefined) return [];
    return [{ set: table.numberOfAddress(service.group), boxes: boxesOf([service], direction) }];
  });
  const named = peers.flatMap((peer) => (peer.kind === 'services' ? table.addressesOf(peer.set) : []));
  const outcome = {
    leaf: leaves.numberOf(leafOf(rule)),
    isPass: action === 'Pass',
    isBaseline: tierPriority === BASELINE_PRIORITY,
    isSkippable: isSkippable(rule),
    sparesPods: sparesLocalPods(rule),
  };
  const prepared = {
    outcome,
    boxes,
    matchesAny: peers.some(({ kind }) => kind === 'any'),
    groups: peers.flatMap((peer) => (peer.kind === 'interfaces' ? peer.groups : [])),
    sets: peers.flatMap((peer) => (peer.kind === 'addresses' ? [table.numberOf(peer.set)] : [])),
    parts: named,
    igmpGroups,
  };
  const { leaf: _, ...kind } = outcome;
  const meaning = JSON.stringify({
    ...prepared,
    outcome: { ...kind, action },
    boxes: boxes === null ? null : [...boxes],
    parts: named.map(({ set }) => set),
    igmpGroups: igmpGroups.map((part) => [part.set, ...part.boxes]),
  });
  return { id: rule.id, meaning, ...prepared };
}

function boxesOf(
  services: CompiledRule['services'],
  direction: CompiledRule['source']['direction'],
): Map<number, Box[]> {
  const grouped = Map.groupBy(services, ({ protocol }) => PROTOCOL_NUMBERS[protocol]);
  return new Map(
    [...grouped].map(([protocol, own]) => [protocol, own.map((service) => boxOf(service, direction))]),
  );
}
