import type { AddressSet } from '../../apis/compiled.ts';
import type { AddressSetPatchUpdate } from '../../apis/stream.ts';
import { parseCidr } from '../../lib/net/address.ts';
import {
  changeAddresses,
  formatMembers,
  type MemberSet,
  memberTotal,
  toMemberSet,
} from '../../lib/net/member-set.ts';
import { withValues } from '../../lib/sharing/changed-map.ts';

/** A mutable view of a map while messages are applied to it. */
export interface DraftMap<T> {
  get(key: string): T | undefined;
  set(key: string, value: T): void;
  delete(key: string): void;
  /** The resulting map; the original one if nothing was changed. */
  map(): ReadonlyMap<string, T>;
}

/** Copies the map at the first change of its keys. Throws if a deleted key doesn't exist. */
export function draftMap<T>(of: ReadonlyMap<string, T>): DraftMap<T> {
  /** Changed values of existing keys, as long as there is no copy. */
  const values = new Map<string, T>();
  let copy: Map<string, T> | null = null;
  const written = (): Map<string, T> => {
    copy ??= new Map([...of, ...values]);
    return copy;
  };
  const get = (key: string): T | undefined =>
    copy === null ? (values.get(key) ?? of.get(key)) : copy.get(key);
  return {
    get,
    set(key, value) {
      if (get(key) === value) return;
      if (copy !== null || !of.has(key)) written().set(key, value);
      else if (of.get(key) === value) values.delete(key);
      else values.set(key, value);
    },
    delete(key) {
      if (!written().delete(key)) throw new Error(`the stream removes ${key}, which is unknown`);
    },
    map: () => copy ?? withValues(of, values),
  };
}

/** Throws TypeError if a member is neither an address nor a CIDR. */
export function toMembers(name: string, members: readonly string[]): MemberSet {
  const blocks = members.flatMap((text) => {
    if (!text.includes('/')) return [];
    const parsed = parseCidr(text);
    if (parsed === null) throw new TypeError(`${name}: ${text} is not a valid CIDR`);
    return [{ cidr: parsed.cidr, except: [] }];
  });
  return toMemberSet(
    blocks,
    members.filter((text) => !text.includes('/')),
  );
}

/** Besides the members, in a message of the stream. */
const KNOWN: readonly string[] = ['type', 'id', 'sequence', 'revision'];

/**
 * The members of a set after a patch. Throws if a removed member doesn't exist, or an added one
 * already does: sender and receiver then have different sets. A patch of single addresses costs its
 * own size and a copy of the family's members; a patch with a prefix rebuilds all members.
 */
export function patchedMembers(
  { id, members }: Pick<AddressSet, 'id' | 'members'>,
  { add = [], remove = [], ...others }: Pick<AddressSetPatchUpdate, 'add' | 'remove'>,
): MemberSet {
  const odd = Object.keys(others).filter((field) => !KNOWN.includes(field));
  if (odd.length > 0) throw new Error(`a patch of AddressSet ${id} has unknown fields: ${odd.join(', ')}`);
  if ([...add, ...remove].some((text) => text.includes('/'))) return withPrefixes(id, members, add, remove);
  const less = changeAddresses(members, remove, []);
  expectCount(id, less, memberTotal(members) - remove.length);
  const more = changeAddresses(less, [], add);
  expectCount(id, more, memberTotal(less) + add.length);
  return more;
}

function withPrefixes(
  id: string,
  members: MemberSet,
  add: readonly string[],
  remove: readonly string[],
): MemberSet {
  const texts = new Set(formatMembers(members));
  for (const text of remove) if (!texts.delete(text)) throw mismatch(id);
  const wanted = texts.size + add.length;
  for (const text of add) texts.add(text);
  const blocks = [...texts].flatMap((text) => {
    if (!text.includes('/')) return [];
    const parsed = parseCidr(text);
    if (parsed === null || parsed.hostBits) throw new Error(`AddressSet ${id}: ${text} is not a valid CIDR`);
    return [{ cidr: parsed.cidr, except: [] }];
  });
  const found = toMemberSet(
    blocks,
    [...texts].filter((text) => !text.includes('/')),
  );
  expectCount(id, found, wanted);
  return found;
}

function expectCount(id: string, members: MemberSet, expected: number): void {
  if (memberTotal(members) !== expected) throw mismatch(id);
}

function mismatch(id: string): Error {
  return new Error(`a patch of AddressSet ${id} does not match its members`);
}
