import type { Ranges } from '../../lib/net/ranges.ts';
import type { Direction } from '../objects.ts';
import { PROTOCOL_NUMBERS } from '../protocols.ts';
import type { Evaluated } from './entry.ts';
import { type Changed, type Comparing, changedFlows, isDistinct } from './first-match.ts';
import { OTHER, protocolsOf, wholeBox } from './service-space.ts';

/** The meaning of the two numbers of a row's protocols; `none`: all flows of the protocols. */
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
  comparing: Comparing,
): Unit[] {
  const changes = (protocol: number): Changed[] => changedFlows(protocol, direction, sides, comparing);
  const others = changes(OTHER);
  const units = new UnitCollector(direction);
  for (const protocol of protocolsOf(family)) {
    const isLikeOthers = !sides.some((side) => isDistinct(protocol, side));
    const { x, y } = wholeBox(protocol, direction);
    if (isLikeOthers) for (const change of others) units.add(protocol, { ...change, xs: [x], ys: [y] });
    else for (const change of changes(protocol)) units.add(protocol, change);
  }
  return units.all().map(({ unit }) => unit);
}

/** Joins the protocols with the same flows. */
export class UnitCollector {
  readonly #direction: Direction;
  readonly #found = new Map<string, { unit: Omit<Unit, 'protocols'>; protocols: number[]; tag: string }>();

  constructor(direction: Direction) {
    this.#direction = direction;
  }

  /** @param tag units with different ones are not joined */
  add(protocol: number, { before, after, xs, ys }: Changed, tag = ''): void {
    const whole = wholeBox(protocol, this.#direction);
    const [isX, isY] = [isWhole(xs, whole.x), isWhole(ys, whole.y)];
    const unit = {
      before,
      after,
      kind: isX && isY ? ('none' as const) : kindOf(protocol),
      xs: isX ? null : xs,
      ys: isY ? null : ys,
    };
    const key = JSON.stringify([unit, tag]);
    const known = this.#found.get(key);
    if (known === undefined) this.#found.set(key, { unit, protocols: [protocol], tag });
    else known.protocols.push(protocol);
  }

  all(): { readonly unit: Unit; readonly tag: string }[] {
    return [...this.#found.values()].map(({ unit, protocols, tag }) => ({
      unit: { ...unit, protocols },
      tag,
    }));
  }
}

function isWhole([only, ...others]: Ranges, [first, last]: readonly [number, number]): boolean {
  return others.length === 0 && only?.[0] === first && only[1] === last;
}

function kindOf(protocol: number): UnitKind {
  if (protocol === icmp || protocol === icmpv6) return 'icmp';
  return protocol === igmp ? 'igmp' : 'ports';
}
