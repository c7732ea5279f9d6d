import type { Command, ElementsCommand } from '../plan/command.ts';
import { elementCount } from '../plan/command-text.ts';

/**
 * At most so many elements of one set in one transaction: a hash set grows by a deferred work of
 * the kernel (lib/rhashtable.c), and filled by one transaction it stays small for long and its
 * chains long. Measured: 100,000 addresses 0.2 to 1.4 s in one, 0.12 s in these.
 */
export const BATCH_ELEMENTS = 8192;

/**
 * A stage as kernel transactions: one, save that large changes of sets are cut. What is added
 * beyond the first part follows, what is deleted goes before, so that whatever else is done finds
 * all that leads to it gone. What replaces something (a set that is flushed, or has elements
 * deleted and added) is never cut.
 */
export function toBatches(commands: readonly Command[]): (readonly Command[])[] {
  if (commands.length === 0) return [];
  if (!commands.some(isLarge)) return [commands];
  const replaced = replacedSets(commands);
  const first: Command[][] = [];
  const main: Command[] = [];
  const after: Command[][] = [];
  for (const command of commands) {
    if (!isLarge(command) || replaced.has(command.set)) {
      main.push(command);
      continue;
    }
    const [part, ...rest] = cut(command);
    if (part !== undefined) main.push(part);
    const others = command.kind === 'addElements' ? after : first;
    for (const [i, one] of rest.entries()) {
      others[i] ??= [];
      others[i].push(one);
    }
  }
  return [...first, main, ...after];
}

/**
 * As transactions of at most so many elements, in the order of the commands: what comes later is
 * done no earlier. A key of a map goes before the members that it promises are there, and so must
 * all parts of it.
 */
export function inOrder(commands: readonly Command[]): (readonly Command[])[] {
  const replaced = replacedSets(commands);
  const batches: Command[][] = [];
  let room = 0;
  let last: string | null = null;
  for (const command of commands) {
    const set = 'keys' in command ? command.set : null;
    // What replaces something stays in its transaction.
    const stays = set !== null && set === last && replaced.has(set);
    for (const part of isLarge(command) && !replaced.has(command.set) ? cut(command) : [command]) {
      const count = 'keys' in part ? elementCount(part) : 1;
      if (batches.length === 0 || (count > room && !stays)) {
        batches.push([]);
        room = BATCH_ELEMENTS;
      }
      batches.at(-1)?.push(part);
      room -= count;
    }
    last = set;
  }
  return batches;
}

/**
 * So many chains or rules take about as long to put into messages as the kernel takes to add them.
 */
const PART = 2048;

/**
 * What nothing leads to yet, cut after every so many chains and rules: while the kernel adds one
 * part the next is put into messages; and before a set that comes after so many elements: the
 * tables of all sets that one transaction fills grow by deferred work, and stay small for long
 * (measured: 100 sets of 5,000 addresses 5.3 s in one transaction, 0.55 s in parts). A set and its
 * elements stay together, because elements find the sets of their own transaction at once (see
 * encode.ts).
 */
export function toParts(commands: readonly Command[]): (readonly Command[])[] {
  const parts: Command[][] = [[]];
  let count = 0;
  let elements = 0;
  for (const command of commands) {
    const adds = command.kind === 'addRule' || command.kind === 'addChain';
    if ((adds && ++count > PART) || (command.kind === 'addSet' && elements >= BATCH_ELEMENTS)) {
      parts.push([]);
      count = adds ? 1 : 0;
      elements = 0;
    }
    if ('keys' in command) elements += elementCount(command);
    parts.at(-1)?.push(command);
  }
  return parts.filter((part) => part.length > 0);
}

function isLarge(command: Command): command is ElementsCommand {
  return (
    (command.kind === 'addElements' || command.kind === 'deleteElements') &&
    elementCount(command) > BATCH_ELEMENTS
  );
}

function replacedSets(commands: readonly Command[]): Set<string> {
  const kinds = new Map<string, ElementsCommand['kind']>();
  const replaced = new Set<string>();
  for (const command of commands) {
    if (!('set' in command) || typeof command.set !== 'string') continue;
    const { set, kind } = command as ElementsCommand;
    if (kind === 'flushElements' || (kinds.get(set) ?? kind) !== kind) replaced.add(set);
    kinds.set(set, kind);
  }
  return replaced;
}

function cut(command: ElementsCommand): ElementsCommand[] {
  const { keys, keyLength, interval, targets } = command;
  const width = interval ? 2 * keyLength : keyLength;
  return Array.from({ length: Math.ceil(elementCount(command) / BATCH_ELEMENTS) }, (_, i) => {
    const [from, to] = [i * BATCH_ELEMENTS, (i + 1) * BATCH_ELEMENTS];
    const part = { ...command, keys: keys.subarray(from * width, to * width) };
    return targets === undefined ? part : { ...part, targets: targets.subarray(from, to) };
  });
}
