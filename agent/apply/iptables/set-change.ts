import type { DelOperation, NameOperation, RestoreOperation } from 'ipset-ts';
import { diffSingles, sameMembers } from '../../../lib/net/member-set.ts';
import type { IpSet } from '../../render/iptables/tables.ts';
import type { SetMembers } from '../../render/ruleset.ts';
import { diffPrefixes } from '../plan/element-change.ts';
import {
  definition,
  entries,
  holdable,
  ipsetMemberCount,
  type KernelSet,
  memberWidth,
  toKernelSet,
} from './kernel-set.ts';

/** The operations that make the kernel hold exactly these sets, all with `exist`. */
export interface SetChange {
  /** Before any rule names them: new sets and added members. */
  readonly first: readonly RestoreOperation[];
  /**
   * Removed members, after the rules have changed, since the old rules may rely on them to accept
   * traffic. An address that moves to another set is for a moment in both, never in neither; only a
   * replaced set changes at once.
   */
  readonly less: readonly DelOperation[];
  /** Destroys sets once no rule names them any more. */
  readonly last: readonly NameOperation[];
  /** The sets in the kernel after that. */
  readonly held: ReadonlyMap<string, KernelSet>;
  /** Members that ipset can't hold, as human-readable lines. */
  readonly lacking: readonly string[];
}

export const TEMPORARY_PREFIX = 'nodewall-tmp-';
/** Up to this many changes are made member by member, whatever their share of the set. */
const FEW = 256;

export function setChange(
  before: ReadonlyMap<string, KernelSet>,
  desired: ReadonlyMap<string, IpSet>,
): SetChange {
  const made: RestoreOperation[] = [];
  const more: RestoreOperation[] = [];
  const swaps: RestoreOperation[] = [];
  const less: DelOperation[] = [];
  const lacking: string[] = [];
  const held = new Map<string, KernelSet>();
  let temporaries = 0;
  const temporaryName = (): string => {
    for (;;) {
      const name = `${TEMPORARY_PREFIX}${temporaries++}`;
      if (!before.has(name)) return name;
    }
  };
  for (const [name, set] of desired) {
    const { members, lacking: left } = holdable(set);
    if (left > 0)
      lacking.push(`set ${name}: ${left} members have the address of all zeros, which ipset cannot store`);
    const there = before.get(name);
    const step = stepOf(there, set, members);
    held.set(name, toKernelSet(set, step.kind === 'same' ? step : definition(name, set)));
    switch (step.kind) {
      case 'same':
        pushAdded(more, set, step.added);
        for (const entry of entries(set, step.removed)) less.push({ op: 'del', set: name, entry });
        break;
      case 'new':
        // A set with the same name but another type can't be swapped.
        if (there !== undefined) made.push({ op: 'destroy', name });
        pushFilled(made, name, set, members);
        break;
      case 'replaced': {
        const temporary = temporaryName();
        pushFilled(swaps, temporary, set, members);
        swaps.push({ op: 'swap', from: temporary, to: name }, { op: 'destroy', name: temporary });
      }
    }
  }
  const last = [...before.keys()].filter((name) => !desired.has(name));
  return {
    first: [made, more, swaps].flat(),
    less,
    last: last.map((name) => ({ op: 'destroy', name })),
    held,
    lacking,
  };
}

type Step =
  | { readonly kind: 'new' | 'replaced' }
  | {
      readonly kind: 'same';
      readonly maxelem: number;
      readonly added: SetMembers;
      readonly removed: SetMembers;
    };

const NONE: SetMembers = { singles: new Uint8Array(), prefixes: [] };

function stepOf(there: KernelSet | undefined, set: IpSet, members: SetMembers): Step {
  if (there === undefined || there.type !== set.type || there.family !== set.family) return { kind: 'new' };
  const isTimed = set.timeout !== undefined;
  if (there.members === null || (there.timed ?? false) !== isTimed) return { kind: 'replaced' };
  const { maxelem } = there;
  if (isTimed) return { kind: 'same', maxelem, added: NONE, removed: NONE };
  if (sameMembers(there.members, members)) return { kind: 'same', maxelem, added: NONE, removed: NONE };
  const singles = diffSingles(memberWidth(set), there.members.singles, members.singles);
  const prefixes = diffPrefixes(there.members.prefixes, members.prefixes);
  const added = { singles: singles.added, prefixes: prefixes.added };
  const removed = { singles: singles.removed, prefixes: prefixes.removed };
  const changed = ipsetMemberCount(set, added) + ipsetMemberCount(set, removed);
  const isMost = changed > FEW && 2 * changed > ipsetMemberCount(set, there.members);
  // Removed members are still in the set while others are added.
  const isFull = ipsetMemberCount(set, there.members) + ipsetMemberCount(set, added) > maxelem;
  return isMost || isFull ? { kind: 'replaced' } : { kind: 'same', maxelem, added, removed };
}

function pushFilled(operations: RestoreOperation[], name: string, set: IpSet, members: SetMembers): void {
  operations.push({ op: 'create', set: definition(name, set) });
  pushAdded(operations, { ...set, name }, members);
}

function pushAdded(operations: RestoreOperation[], set: IpSet, members: SetMembers): void {
  for (const entry of entries(set, members)) operations.push({ op: 'add', set: set.name, entry });
}
