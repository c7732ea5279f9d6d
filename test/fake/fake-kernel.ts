import { createHash } from 'node:crypto';
import type { ChainSnapshot, Elements, SetSnapshot, TableSnapshot } from 'nftables-napi';
import type { Kernel } from '../../agent/apply/netlink/kernel.ts';
import { type Command, commandText, type ElementsCommand } from '../../agent/apply/plan/command.ts';
import { ruleText } from '../../agent/render/nft-text.ts';
import { KEY_LENGTH } from '../../agent/render/ruleset.ts';
import { mapKeyLength } from '../../agent/render/verdict-map.ts';
import {
  addChain,
  addElement,
  addRule,
  addSet,
  chainNames,
  currentRule,
  deleteChain,
  deleteElement,
  deleteSet,
  type FakeChain,
  FakeRefusal,
  type FakeSet,
  type FakeTable,
  flushChain,
  newTable,
  renameChain,
  setOf,
  toNftError,
  validate,
} from './table.ts';

/** One transaction that is asked for. */
export interface Call {
  /** Counts transactions from 1. */
  readonly number: number;
  readonly commands: readonly Command[];
  /** For each command its text. */
  readonly lines: readonly string[];
}

export interface FakeKernel extends Kernel {
  /** The table now; null where there is none. Not to be changed. */
  table(): FakeTable | null;
  /** All transactions so far, refused ones among them. */
  readonly calls: readonly Call[];
  /** How often it was read so far, whatever was. */
  readonly reads: { readonly snapshot: number; readonly chains: number; readonly elements: number };
  /**
   * Is asked before each transaction: what it throws is the answer (see table.ts). It may change
   * the kernel, as a stranger does.
   */
  intercept(hook: (call: Call) => void | Promise<void>): void;
  /** Is told of every commit, of ours and others'. */
  onCommit(listener: (generation: number) => void): void;
  /** Changes the table as a stranger would, past all checks. Makes a generation. */
  tamper(change: (table: FakeTable) => void): void;
}

/** nf_tables, the one table of ours, in memory. */
export function fakeKernel(): FakeKernel {
  let table: FakeTable | null = null;
  let generation = 1;
  const calls: Call[] = [];
  const reads = { snapshot: 0, chains: 0, elements: 0 };
  const listeners: ((generation: number) => void)[] = [];
  let hook: (call: Call) => void | Promise<void> = () => undefined;

  function commit(next: FakeTable | null): void {
    table = next;
    generation++;
    for (const listener of listeners) listener(generation);
  }

  return {
    table: () => table,
    calls,
    reads,
    intercept: (next) => {
      hook = next;
    },
    onCommit: (listener) => void listeners.push(listener),
    tamper(change) {
      const copy = structuredClone(table) ?? newTable();
      change(copy);
      commit(copy);
    },
    async transact(commands) {
      const microseconds = { build: 0, kernel: 0 };
      if (commands.length > 0) {
        const call = { number: calls.length + 1, commands, lines: commands.map(commandText) };
        calls.push(call);
        await hook(call);
      }
      const before = generation;
      // All of it on a copy, which becomes the table when nothing was refused.
      if (commands.length > 0) commit(runCommands(structuredClone(table), commands));
      return { generation: { before, after: generation }, lastCounts: [], microseconds };
    },
    async snapshot() {
      reads.snapshot++;
      return snapshotOf(table, generation);
    },
    async chains(names) {
      reads.chains++;
      const wanted = new Set(names);
      const chains = snapshotOf(table, generation)?.chains ?? [];
      return { generation, chains: chains.filter(({ name }) => wanted.has(name)) };
    },
    async elements(set) {
      reads.elements++;
      return elementsOf(table, set);
    },
    generation: async () => generation,
  };
}

function runCommands(copy: FakeTable | null, commands: readonly Command[]): FakeTable | null {
  let table = copy;
  let index = 0;
  // A chain that is renamed has its old name for the whole transaction.
  const order = [...commands.keys()].sort(
    (a, b) => Number(isRename(commands[a])) - Number(isRename(commands[b])),
  );
  try {
    for (index of order) {
      const command = commands[index];
      if (command !== undefined) table = runCommand(table, command);
    }
    if (table !== null) validate(table);
    return table;
  } catch (error) {
    if (error instanceof FakeRefusal) throw toNftError(error.code, error.message, { operation: index });
    throw error;
  }
}

function isRename(command: Command | undefined): boolean {
  return command?.kind === 'renameChain';
}

function runCommand(table: FakeTable | null, command: Command): FakeTable | null {
  if (command.kind === 'addTable') return table ?? newTable();
  if (table === null) throw new FakeRefusal('ENOENT', 'No such file or directory');
  switch (command.kind) {
    case 'deleteTable':
      return null;
    case 'renameChain':
      renameChain(table, command.handle, command.to);
      break;
    case 'addChain':
      addChain(table, command.chain.name, command.chain.base);
      break;
    case 'flushChain':
      flushChain(table, command.name);
      break;
    case 'deleteChain':
      deleteChain(table, command.name);
      break;
    case 'addRule':
      addRule(table, command.chain, command.rule);
      break;
    case 'deleteSet':
      deleteSet(table, command.name);
      break;
    case 'addSet': {
      const { name, key, family, interval, comment, timed = false } = command.set;
      addSet(table, { name, keyLength: KEY_LENGTH[key][family], interval, isMap: false, comment, timed });
      break;
    }
    case 'addMap': {
      const { name, key, interval } = command.map;
      const keyLength = mapKeyLength(command.map);
      addSet(table, { name, keyLength, interval, isMap: true, comment: null, key });
      break;
    }
    case 'addElements':
    case 'deleteElements':
    case 'flushElements':
      changeElements(table, command);
      break;
  }
  return table;
}

function changeElements(table: FakeTable, command: ElementsCommand): void {
  const { kind, keyLength, interval, keys, targets, verdicts = [] } = command;
  const set = setOf(table, command.set);
  if (kind === 'flushElements') {
    set.elements.clear();
    set.catchAll = false;
    return;
  }
  if (keyLength !== set.keyLength || interval !== set.interval) {
    throw new FakeRefusal('EINVAL', 'Invalid argument');
  }
  const hex = Buffer.from(keys).toString('hex');
  const width = 2 * keyLength;
  const step = interval ? 2 * width : width;
  if (hex.length === 0) throw new Error('a command without elements');
  for (let at = 0, i = 0; at < hex.length; at += step, i++) {
    const first = hex.slice(at, at + width);
    const last = interval ? hex.slice(at + width, at + step) : first;
    const verdict = targets === undefined ? null : (verdicts[targets[i] ?? -1] ?? null);
    if (kind === 'addElements') addElement(table, set, { first, last, verdict });
    else deleteElement(set, first, last);
  }
}

function elementsOf(table: FakeTable | null, name: string): Elements | null {
  const set = table?.sets.get(name);
  if (table === null || set === undefined) return null;
  const names = chainNames(table);
  const sorted = [...set.elements].sort(([a], [b]) => (a < b ? -1 : 1));
  const bytes = (texts: readonly string[]) => new Uint8Array(Buffer.from(texts.join(''), 'hex'));
  const verdicts = sorted.flatMap(([, { verdict }]) =>
    verdict === null ? [] : [{ kind: verdict.kind, chain: names.get(verdict.chain) ?? '?' }],
  );
  return {
    keyLength: set.keyLength,
    keys: bytes(set.interval ? [] : sorted.map(([first]) => first)),
    ranges: bytes(set.interval ? sorted.map(([first, { last }]) => first + last) : []),
    isInterval: set.interval,
    isMap: set.isMap,
    hasCatchAll: set.catchAll,
    ...(set.isMap ? { verdicts } : {}),
  };
}

/** NFT_SET_… of linux/netfilter/nf_tables.h. */
const FLAGS = { interval: 4, map: 8, timeout: 16 } as const;

function snapshotOf(table: FakeTable | null, generation: number): TableSnapshot | null {
  if (table === null) return null;
  const byHandle = (a: { handle: number }, b: { handle: number }) => a.handle - b.handle;
  const names = chainNames(table);
  return {
    generation,
    isDormant: false,
    chains: [...table.chains.values()].sort(byHandle).map((chain) => toChainSnapshot(chain, names)),
    sets: [...table.sets.values()].sort(byHandle).map(toSetSnapshot),
  };
}

function toChainSnapshot(
  { name, handle, base, rules }: FakeChain,
  names: ReadonlyMap<number, string>,
): ChainSnapshot {
  return {
    name,
    handle,
    base,
    rules: rules.map((one) => ({
      handle: one.handle,
      comment: one.rule.comment,
      digest: digestOf(ruleText({ ...currentRule(one, names), comment: null })),
      packets: one.rule.counter ? 0n : null,
      bytes: one.rule.counter ? 0n : null,
    })),
  };
}

function toSetSnapshot({ name, handle, keyLength, interval, isMap, timed }: FakeSet): SetSnapshot {
  return {
    name,
    handle,
    keyLength,
    flags: (interval ? FLAGS.interval : 0) | (isMap ? FLAGS.map : 0) | (timed ? FLAGS.timeout : 0),
    isMap,
    isInterval: interval,
    isAnonymous: false,
    hasTimeout: timed === true,
    elementCount: null,
  };
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}

/**
 * The kernel until its nth transaction (from 1): that one and all after it are refused, and nobody
 * is told why.
 */
export function interrupted(kernel: Kernel, nth: number): Kernel {
  let count = 0;
  return {
    ...kernel,
    async transact(commands) {
      if (++count >= nth) throw toNftError('ENOMEM', 'Cannot allocate memory');
      return await kernel.transact(commands);
    },
  };
}

/**
 * What a kernel holds of our table, comparable: everything that has a meaning, no handles. Null: no
 * table.
 */
export type Listing = Record<string, readonly string[]> | null;

export async function listing(kernel: Pick<Kernel, 'snapshot' | 'elements'>): Promise<Listing> {
  const table = await kernel.snapshot();
  if (table === null) return null;
  // One that is not needed any more stays, without rules (plan/current-state.ts).
  const retired = ['prerouting', 'forward'];
  const chains = table.chains.filter(({ name, rules }) => !retired.includes(name) || rules.length > 0);
  const lines: [string, string[]][] = chains.map(({ name, base, rules }) => [
    `chain ${name}${base === null ? '' : ` ${base.type} ${base.hook} ${base.priority} ${base.policy}`}`,
    rules.map(({ digest, comment }) => `${digest}${comment === null ? '' : ` ${comment}`}`),
  ]);
  if (table.isDormant) lines.push(['dormant', []]);
  for (const { name, isAnonymous, isMap, isInterval, keyLength } of table.sets) {
    if (isAnonymous) continue;
    const found = await kernel.elements(name);
    const step = isInterval ? 2 * keyLength : keyLength;
    const bytes = Buffer.from((isInterval ? found?.ranges : found?.keys) ?? []);
    const elements = Array.from({ length: bytes.length / step }, (_, i) => {
      const verdict = found?.verdicts?.[i];
      const target =
        verdict === undefined ? '' : ` ${verdict.kind} ${'chain' in verdict ? verdict.chain : ''}`;
      return `${bytes.toString('hex', i * step, (i + 1) * step)}${target}`;
    });
    if (found?.hasCatchAll) elements.push('*');
    lines.push([`${isMap ? 'map' : 'set'} ${name} ${keyLength}${isInterval ? ' interval' : ''}`, elements]);
  }
  return Object.fromEntries(lines.sort(([a], [b]) => (a < b ? -1 : 1)));
}
