import type { RuleSource } from '../../../apis/compiled.ts';
import { baseLines, isIdentifier, mapLines, ruleText, setLines } from '../../render/nft-text.ts';
import { type Chain, type NamedSet, type NftRule, TABLE } from '../../render/ruleset.ts';
import type { ChainVerdict, VerdictMap } from '../../render/verdict-map.ts';

/**
 * One step of a kernel transaction, in terms of the ruleset. agent/apply/netlink/encode.ts turns it
 * into netlink operations, commandText into nft's language for people. `addSet` and
 * `addMap` make an empty object; `addElements` fills it.
 */
export type Command =
  | { readonly kind: 'addTable' }
  | { readonly kind: 'deleteTable' }
  | { readonly kind: 'addSet'; readonly set: NamedSet }
  | { readonly kind: 'addMap'; readonly map: VerdictMap }
  /** Deletes a set or a map. */
  | { readonly kind: 'deleteSet'; readonly name: string }
  /** Adds a chain without its rules; sets the policy of a base chain that exists. */
  | { readonly kind: 'addChain'; readonly chain: Chain }
  /**
   * `counted`: the handle of the chain, if Committed.lastCounts is to report the counters of its
   * rules.
   */
  | { readonly kind: 'flushChain'; readonly name: string; readonly counted?: number }
  | { readonly kind: 'deleteChain'; readonly name: string }
  /**
   * The kernel finds the chain by its handle, since by then the name may belong to another chain.
   * It renames at the commit: all other commands of the transaction refer to the chain by its old
   * name.
   */
  | { readonly kind: 'renameChain'; readonly name: string; readonly handle: number; readonly to: string }
  /** Adds the rule at the end of its chain. `source` is the policy rule it implements. */
  | {
      readonly kind: 'addRule';
      readonly chain: string;
      readonly rule: NftRule;
      readonly source: RuleSource | null;
    }
  | ElementsCommand;

/** Elements of one set or map, all packed in network byte order. */
export interface ElementsCommand {
  readonly kind: 'addElements' | 'deleteElements' | 'flushElements';
  readonly set: string;
  /** Length of one key in bytes. */
  readonly keyLength: number;
  /**
   * For an interval set: `keys` are pairs of first and last key. A range is deleted as it was
   * added.
   */
  readonly interval: boolean;
  /** Empty for flushElements. */
  readonly keys: Uint8Array;
  /** Only when adding to verdict maps: for each key or pair an index into `verdicts`. */
  readonly targets?: Uint32Array;
  readonly verdicts?: readonly ChainVerdict[];
  /** Only when adding to sets with a timeout: milliseconds, for each key. */
  readonly timeouts?: readonly number[];
}

const table = `${TABLE.family} ${TABLE.name}`;

/** A command in nft's language, for people; elements are counted, not listed. */
export function commandText(command: Command): string {
  switch (command.kind) {
    case 'addTable':
      return `add table ${table}`;
    case 'deleteTable':
      return `delete table ${table}`;
    case 'addSet':
      return `add set ${table} ${nameText(command.set.name)} { ${setLines(command.set, false).join('; ')}; }`;
    case 'addMap':
      return `add map ${table} ${nameText(command.map.name)} { ${mapLines(command.map, false).join('; ')}; }`;
    case 'deleteSet':
      return `delete set ${table} ${nameText(command.name)}`;
    case 'addChain':
      return `add chain ${table} ${nameText(command.chain.name)}${baseText(command.chain)}`;
    case 'flushChain':
      return `flush chain ${table} ${nameText(command.name)}`;
    case 'deleteChain':
      return `delete chain ${table} ${nameText(command.name)}`;
    case 'renameChain':
      return `rename chain ${table} ${nameText(command.name)} ${nameText(command.to)}`;
    case 'addRule':
      return `add rule ${table} ${nameText(command.chain)} ${ruleText(command.rule)}`;
    case 'addElements':
    case 'deleteElements':
      return `# ${elementCount(command)} elements ${command.kind === 'addElements' ? 'added to' : 'deleted from'} ${nameText(command.set)}`;
    case 'flushElements':
      return `flush set ${table} ${nameText(command.set)}`;
  }
}

/** The number of keys or ranges. */
export function elementCount({ keys, keyLength, interval }: ElementsCommand): number {
  return keys.length / (interval ? 2 * keyLength : keyLength);
}

/** Third parties can choose names through netlink that nft's language can't express. */
function nameText(name: string): string {
  return isIdentifier(name) ? name : JSON.stringify(name);
}

function baseText(chain: Chain): string {
  const lines = baseLines(chain);
  return lines.length > 0 ? ` { ${lines.join(' ')} }` : '';
}

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
