import type { Node, PolicyShare } from '../../apis/objects.ts';
import type { ListChange } from '../../lib/sharing/lists.ts';
import type { ObjectIndex } from '../index/object-index.ts';
import { selectorIndex } from '../index/selector.ts';
import { placeInRollout, takesPart } from '../rollout/order.ts';
import type { AppliedNodes, PolicyRules } from './policy-rules.ts';

/**
 * The names of the nodes that appliedTo lists select, maintained over successive states of the
 * nodes.
 */
export interface Spans<U> {
  /**
   * The names of the selected nodes, sorted; equal lists share one set. Throws if no user has this
   * list.
   */
  of(nodes: AppliedNodes): ReadonlySet<string>;
  /**
   * Must be called after the index has advanced. Returns the users whose nodes changed, added users
   * included. A list that selects the same nodes as before keeps its set.
   */
  advance(
    change: ListChange<Node>,
    users: { readonly removed: readonly U[]; readonly added: readonly U[] },
  ): ReadonlySet<U>;
}

interface Span<U> {
  names: ReadonlySet<string>;
  readonly users: Set<U>;
  readonly takeOut: readonly (() => void)[];
}

export function nodeSpans<U extends { readonly rules: Pick<PolicyRules, 'appliedTo'> }>(
  index: ObjectIndex,
): Spans<U> {
  const spans = new Map<string, Span<U>>();
  const bySelector = selectorIndex<Span<U>>();

  function add({ key, selectors }: AppliedNodes): Span<U> {
    const names = selectors.flatMap((selector) => index.selectNodes(selector).map(({ name }) => name));
    const takeOut: (() => void)[] = [];
    const span = { names: new Set(names.sort()), users: new Set<U>(), takeOut };
    for (const selector of selectors) takeOut.push(bySelector.add(selector, span));
    spans.set(key, span);
    return span;
  }

  /** The names of removed and added nodes by span, and whether each is selected now. */
  function touched({ removed, added }: ListChange<Node>): Map<Span<U>, Map<string, boolean>> {
    const found = new Map<Span<U>, Map<string, boolean>>();
    for (const [nodes, isSelected] of [
      [removed, false],
      [added, true],
    ] as const) {
      for (const { labels, name } of nodes) {
        for (const span of bySelector.matching(labels)) {
          const names = found.get(span) ?? new Map<string, boolean>();
          found.set(span, names.set(name, isSelected));
        }
      }
    }
    return found;
  }

  return {
    of({ key }) {
      const span = spans.get(key);
      if (span === undefined) throw new Error(`span ${key} is not in use`);
      return span.names;
    },
    advance(change, { removed, added }) {
      const stale = new Set<U>();
      for (const [span, names] of touched(change)) {
        const now = changedNames(span.names, names);
        if (now === span.names) continue;
        span.names = now;
        for (const user of span.users) stale.add(user);
      }
      for (const user of added) {
        stale.add(user);
        for (const nodes of user.rules.appliedTo) (spans.get(nodes.key) ?? add(nodes)).users.add(user);
      }
      for (const user of removed) {
        stale.delete(user);
        for (const { key } of user.rules.appliedTo) {
          const span = spans.get(key);
          if (span === undefined) continue;
          span.users.delete(user);
          if (span.users.size > 0) continue;
          for (const out of span.takeOut) out();
          spans.delete(key);
        }
      }
      return stale;
    },
  };
}

/** Returns the same set if nothing changes. */
function changedNames(
  names: ReadonlySet<string>,
  touched: ReadonlyMap<string, boolean>,
): ReadonlySet<string> {
  const added = [...touched].flatMap(([name, isSelected]) => (isSelected && !names.has(name) ? name : []));
  const removed = new Set([...touched].flatMap(([name, isSelected]) => (isSelected ? [] : name)));
  const isLess = [...removed].some((name) => names.has(name));
  if (added.length === 0 && !isLess) return names;
  added.sort();
  const now = new Set<string>();
  let next = 0;
  for (const name of names) {
    for (let other = added[next]; other !== undefined && other < name; other = added[++next]) now.add(other);
    if (!removed.has(name)) now.add(name);
  }
  for (const name of added.slice(next)) now.add(name);
  return now;
}

/** For a share: from the nodes that a list selects to those that have the version. */
export type NodesOfShare = (share: PolicyShare) => (span: ReadonlySet<string>) => ReadonlySet<string>;

/**
 * Equal spans stay the same object, also for all policies of a group: who has which version is
 * computed once for each list of nodes and share.
 */
export function nodesOfShares(): NodesOfShare {
  const known = new WeakMap<ReadonlySet<string>, Map<string, ReadonlySet<string>>>();
  return ({ nodes }) => {
    if (nodes === undefined) return (span) => span;
    const { salt, areTaking, through, firsts } = nodes;
    const key = JSON.stringify([salt, areTaking, through, firsts]);
    return (span) => {
      const there = known.get(span)?.get(key);
      if (there !== undefined) return there;
      const made = new Set(
        [...span].filter((name) => takesPart(nodes, name, placeInRollout(name, salt)) === areTaking),
      );
      // The shares of earlier steps are not needed again.
      const others = [...(known.get(span) ?? [])].slice(-MOST_SHARES);
      known.set(span, new Map([...others, [key, made]]));
      return made;
    };
  };
}

/** Shares of one list of nodes: two for each rollout in progress. */
const MOST_SHARES = 100;
