import type { Direction } from '../objects.ts';
import { PROTOCOL_NUMBERS } from '../protocols.ts';
import { type Changed, changesOf, type Evaluated, isDistinct } from './first-match.ts';
import type { Ranges } from './ranges.ts';
import { OTHER, protocolsOf, wholeBox } from './service-space.ts';

/** What the two numbers of a row's protocols are; `none`: all flows of the protocols. */
export type UnitKind = 'none' | 'ports' | 'icmp' | 'igmp';

/** Flows of one peer with the same two outcomes. */
export interface Unit {
  readonly before: number;
  readonly after: number;
  readonly kind: UnitKind;
  /** Sorted; OTHER stands for all others. */
  readonly protocols: readonly number[];
  /** Null: every value. */
  readonly xs: Ranges | null;
  readonly ys: Ranges | null;
}

const { icmp, igmp, icmpv6 } = PROTOCOL_NUMBERS;

/** The flows of one peer whose verdict differs. */
export function unitsOf(
  family: 4 | 6,
  direction: Direction,
  sides: readonly [Evaluated, Evaluated],
  isChange: (before: number, after: number) => boolean,
): Unit[] {
  const changes = (protocol: number): Changed[] => changesOf(protocol, direction, sides, isChange);
  const others = changes(OTHER);
  const found = new Map<string, Omit<Unit, 'protocols'> & { readonly protocols: number[] }>();
  for (const protocol of protocolsOf(family)) {
    const isLikeOthers = !sides.some((side) => isDistinct(protocol, side));
    const whole = wholeBox(protocol, direction);
    for (const change of isLikeOthers ? others : changes(protocol)) {
      const isX = isLikeOthers || isWhole(change.xs, whole.x);
      const isY = isLikeOthers || isWhole(change.ys, whole.y);
      const unit = {
        before: change.before,
        after: change.after,
        kind: isX && isY ? ('none' as const) : kindOf(protocol),
        xs: isX ? null : change.xs,
        ys: isY ? null : change.ys,
      };
      const key = JSON.stringify(unit);
      const known = found.get(key);
      if (known === undefined) found.set(key, { ...unit, protocols: [protocol] });
      else known.protocols.push(protocol);
    }
  }
  return [...found.values()];
}

function isWhole([only, ...others]: Ranges, [first, last]: readonly [number, number]): boolean {
  return others.length === 0 && only?.[0] === first && only[1] === last;
}

function kindOf(protocol: number): UnitKind {
  if (protocol === icmp || protocol === icmpv6) return 'icmp';
  return protocol === igmp ? 'igmp' : 'ports';
}
