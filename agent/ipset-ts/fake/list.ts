/** Sets whose entries are the names of other sets, in an order. */
import { Refusal } from './refusal.ts';
import type { FakeSet, Header } from './set.ts';

type Sets = ReadonlyMap<string, FakeSet>;

export function addMember(sets: Sets, list: FakeSet, name: string, options: Header, exist: boolean): void {
  const neighbour = checkNames(sets, list, name, options);
  const members = [...list.entries];
  const beside = members.findIndex(([other]) => other === neighbour && other !== name);
  if (neighbour !== undefined && beside < 0) throw notThere();
  const stored = {
    element: { parts: [name], nets: [null] },
    options: withoutPosition(options),
    expires: null,
  };
  if (list.entries.has(name)) {
    if (!exist) throw new Refusal("Element cannot be added to the set: it's already added");
    // It keeps its place, whatever is said of that.
    list.entries.set(name, stored);
    return;
  }
  const index = neighbour === undefined ? members.length : options.has('before') ? beside : beside + 1;
  list.entries.clear();
  for (const [other, old] of members.toSpliced(index, 0, [name, stored])) list.entries.set(other, old);
}

export function delMember(sets: Sets, list: FakeSet, name: string, options: Header, exist: boolean): void {
  const neighbour = checkNames(sets, list, name, options);
  if (neighbour !== undefined && !stands(list, name, options)) throw notThere();
  if (!list.entries.delete(name) && !exist) {
    throw new Refusal("Element cannot be deleted from the set: it's not added");
  }
}

export function testMember(list: FakeSet, name: string, options: Header): boolean {
  return list.entries.has(name) && stands(list, name, options);
}

function checkNames(sets: Sets, list: FakeSet, name: string, options: Header): string | undefined {
  const member = sets.get(name);
  if (member === undefined) throw new Refusal('Set to be added/deleted/tested as element does not exist.');
  if (member.type === list.type) throw new Refusal('Sets with list:set type cannot be added to the set.');
  const neighbour = options.get('before') ?? options.get('after');
  if (neighbour !== undefined && !sets.has(neighbour)) {
    throw new Refusal("The set to which you referred with 'before' or 'after' does not exist.");
  }
  return neighbour;
}

/** Whether it stands where the options say. */
function stands(list: FakeSet, name: string, options: Header): boolean {
  const names = [...list.entries.keys()];
  const at = names.indexOf(name);
  const [before, after] = [options.get('before'), options.get('after')];
  return (
    (before === undefined || names[at + 1] === before) && (after === undefined || names[at - 1] === after)
  );
}

function withoutPosition(options: Header): Header {
  return new Map([...options].filter(([option]) => option !== 'before' && option !== 'after'));
}

function notThere(): Refusal {
  return new Refusal("The set to which you referred with 'before' or 'after' is not added to the set.");
}
