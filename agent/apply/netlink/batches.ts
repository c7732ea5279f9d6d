import { type Command, type ElementsCommand, elementCount } from '../plan/command.ts';

/**
 * The most elements of one set in one transaction. A hash set is grown by deferred work in the
 * kernel (lib/rhashtable.c); filled by a single transaction, it stays small for long and its hash
 * chains are long. Measured for 100,000 addresses: 0.2 to 1.4 s in one transaction, 0.12 s in
 * transactions of this size.
 */
export const BATCH_ELEMENTS = 8192;

/**
 * A stage as kernel transactions: a single one, unless it has large changes of sets. Of a large
 * addition, the first batch is in the main transaction and the others follow; of a large deletion,
 * the others go before, so that the other commands find everything deleted that leads to their
 * objects. Replacements (a set that is flushed, or has elements both deleted and added) are never
 * divided.
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
 * The commands as transactions of at most BATCH_ELEMENTS elements, strictly in order. A map key
 * promises that certain members are there, so all batches of keys must be deleted before any of
 * these members.
 */
export function inOrder(commands: readonly Command[]): (readonly Command[])[] {
  const replaced = replacedSets(commands);
  const batches: Command[][] = [];
  let room = 0;
  let last: string | null = null;
  for (const command of commands) {
    const set = 'keys' in command ? command.set : null;
    // The commands of a replacement stay in one transaction.
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
 * Encoding this many chains or rules into messages takes about as long as the kernel takes to add
 * them.
 */
const PART = 2048;

/**
 * Divides commands for objects that nothing leads to yet. A new part begins after every PART chains
 * and rules, so that one part is encoded while the kernel adds the one before. A new part also
 * begins before a set once BATCH_ELEMENTS elements have been added: the tables of all sets that one
 * transaction fills grow by deferred work, and stay small for long (measured: 100 sets of 5,000
 * addresses 5.3 s in one transaction, 0.55 s in parts). A set and its elements stay together,
 * because elements find a set of their own transaction by its id (see encode.ts).
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

/** Changes of verdicts are one transaction, however large. */
const whole = (commands: readonly Command[]): (readonly Command[])[] =>
  commands.length > 0 ? [commands] : [];

/** How each stage (see Transaction) is divided into kernel transactions. */
export const BATCHES = {
  rename: whole,
  prepare: (commands: readonly Command[]) => toBatches(commands).flatMap(toParts),
  members: toBatches,
  swap: whole,
  withdraw: inOrder,
  collect: toBatches,
} as const;

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
