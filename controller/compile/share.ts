import type { PolicyShare } from '../../apis/objects.ts';
import { placeInRollout, takesPart } from '../rollout/order.ts';

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
