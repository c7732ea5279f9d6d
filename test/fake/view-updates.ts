import { isDeepStrictEqual } from 'node:util';
import type { NodeState } from '../../apis/compiled.ts';
import type { Update } from '../../apis/stream.ts';
import {
  type AddressSetMessage,
  type Message,
  snapshot,
  toWrittenRule,
  type WrittenRule,
} from '../../apis/wire.ts';
import { formatMembers } from '../../lib/net/member-set.ts';

/**
 * What a controller would say of a node's view, put together the plain way: from one state to the
 * next, without its bookmark. Null is nothing yet: a whole view.
 */
export function updatesBetween(before: NodeState | null, after: NodeState, enabled = true): Update[] {
  const [was, is] = [before === null ? [] : [...snapshot(before)], [...snapshot(after)]];
  const [oldSets, sets] = [setsOf(was), setsOf(is)];
  const [oldParts, parts] = [partsOf(before), partsOf(after)];
  const updates: Update[] = before === null ? [{ type: 'reset' }, { type: 'gate', enabled }] : [];
  for (const [key, message] of sets) {
    const old = oldSets.get(key);
    if (old === undefined) updates.push(message);
    else if (!isDeepStrictEqual(old, message)) updates.push(setChange(old, message));
  }
  for (const message of is) {
    if (
      message.type === 'node' &&
      !isDeepStrictEqual(
        was.find(({ type }) => type === 'node'),
        message,
      )
    )
      updates.push(message);
  }
  for (const [part, rules] of parts) {
    if (!isDeepStrictEqual(oldParts.get(part), rules)) updates.push({ type: 'rules', part, rules });
  }
  for (const part of oldParts.keys()) if (!parts.has(part)) updates.push({ type: 'rulesRemoved', part });
  for (const [key, { type, id }] of oldSets) {
    if (sets.has(key)) continue;
    updates.push({ type: type === 'addressSet' ? 'addressSetRemoved' : 'serviceSetRemoved', id });
  }
  return updates;
}

export function bookmarkOf(state: NodeState, initial: boolean): Update {
  return {
    type: 'bookmark',
    ...(initial ? { initial } : {}),
    rules: state.rules.length,
    addressSets: state.addressSets.size,
    serviceSets: state.serviceSets.size,
  };
}

/** In a form that two states which hold the same have in common. */
export function plainState(state: NodeState): object {
  const sets = [...state.addressSets].map(([id, set]) => [
    id,
    { ...set, members: formatMembers(set.members) },
  ]);
  return { ...state, addressSets: sets, serviceSets: [...state.serviceSets] };
}

type SetMessage = Extract<Message, { type: 'addressSet' | 'serviceSet' }>;

function setsOf(messages: readonly Message[]): Map<string, SetMessage> {
  const sets = new Map<string, SetMessage>();
  for (const message of messages) {
    if (message.type === 'addressSet' || message.type === 'serviceSet')
      sets.set(`${message.type}/${message.id}`, message);
  }
  return sets;
}

function setChange(old: SetMessage, now: SetMessage): Update {
  if (old.type !== 'addressSet' || now.type !== 'addressSet' || !sameButMembers(old, now)) return now;
  const [was, is] = [new Set(old.members), new Set(now.members)];
  const add = now.members.filter((member) => !was.has(member));
  const remove = old.members.filter((member) => !is.has(member));
  return {
    type: 'addressSetPatch',
    id: now.id,
    ...(add.length ? { add } : {}),
    ...(remove.length ? { remove } : {}),
  };
}

function sameButMembers(a: AddressSetMessage, b: AddressSetMessage): boolean {
  return isDeepStrictEqual({ ...a, members: [] }, { ...b, members: [] });
}

/** A policy's rules in two parts, as if it had two spans. */
function partsOf(state: NodeState | null): Map<string, WrittenRule[]> {
  return Map.groupBy(
    (state?.rules ?? []).map(toWrittenRule),
    ({ source }) => `${source.apiGroup}/${source.policy}/${source.ruleIndex % 2}`,
  );
}
