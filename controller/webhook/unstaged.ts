import type { ClusterGroup } from '../../apis/objects.ts';
import { identityOf } from '../../apis/validate/identity.ts';
import { namers, type Related } from './dependants.ts';

/** Policies that one warning names. */
const MOST_NAMED = 5;

/**
 * The warning of an edit of a group that policies with a rollout name: it is in no version of them,
 * so no step holds it back.
 */
export function unstagedWarnings(group: ClusterGroup, related: Related): readonly string[] {
  const names = namers(related, identityOf(group)).flatMap((object) =>
    object.kind === 'ClusterNetworkPolicy' && object.rollout !== undefined ? object.name : [],
  );
  const staged = [...new Set(names)].sort();
  if (staged.length === 0) return [];
  const others = staged.length - MOST_NAMED;
  const named = staged.slice(0, MOST_NAMED).join(', ') + (others > 0 ? ` and ${others} more` : '');
  return [
    `this edit is in force on all nodes at once: groups are not part of a rollout, and ${named} ${staged.length === 1 ? 'has' : 'have'} one`,
  ];
}
